// FakeVerifier and FakeDrafter: toy stages without an engine. The next token of the target is a
// hash of the whole committed prefix (and of the seed, when sampling). The drafter predicts it with
// a given error rate. Everything is deterministic. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_FAKE_STAGES_H_
#define BASTION_TESTS_SUPPORT_FAKE_STAGES_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/stages/stages.h"

namespace bastion::testing {

inline constexpr int kToyVocabulary = 97;
inline constexpr int kToyContext = 512;
inline constexpr int kToyRows = 256;
inline constexpr int kToyPage = 16;  // Tokens.

// The toy target's next token after `prefix`: the hash, or the next higher token that is in
// `allowed`. At temperature 0 the seed has no effect. `allowed` may be null.
[[nodiscard]] TokenId ToyNext(absl::Span<const TokenId> prefix, const ChoiceParams& sampling,
                              const TokenSet* allowed = nullptr);
// The output of plain decoding: `count` tokens after `prompt`.
[[nodiscard]] std::vector<TokenId> ToyText(std::vector<TokenId> prompt,
                                           const SamplingParams& sampling, int count);

class FakeVerifier final : public Verifier {
 public:
  absl::StatusOr<TargetInfo> Info() override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<int> ReusePrefix(const PrefixItem& item) override;
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override;
  void Close(SequenceId sequence) override;

  // The committed tokens of a live sequence; null for any other sequence.
  [[nodiscard]] const std::vector<TokenId>* Tokens(SequenceId sequence) const;
  [[nodiscard]] int live_sequences() const { return static_cast<int>(live_.size()); }

  // ---- sizes that a test may change ----
  int kv_tokens = 32 * kToyContext;  // Capacity of the KV cache.
  int max_context = kToyContext;
  std::string identity = "toy";
  bool takes_masks = true;

  // ---- faults that a test can set ----
  std::optional<absl::Status> call_error;       // Returned by every Verify.
  std::optional<Acceptance> forced_acceptance;  // Returned for every tree.

  // ---- the arguments of the last Verify ----
  Forest last_forest;
  std::vector<PrefillItem> last_prompts;

 private:
  struct State {
    SequenceId id;
    SamplingParams sampling;
    std::vector<TokenId> tokens = {};
    int pages = 0;
    std::optional<std::string> salt = {};  // Set if the sequence shares its pages.
    int shared = 0;                        // How many of its first pages are in cached_.
  };
  // A salt, and all tokens up to the end of a full page.
  using Prefix = std::pair<std::string, std::vector<TokenId>>;

  // The sequence `id`, if `count` tokens after the `cached` ones may be committed in this call.
  [[nodiscard]] absl::StatusOr<State*> Find(SequenceId id, Position cached, int count);
  // Reserve pages as common/stages/stages.h states.
  [[nodiscard]] absl::StatusOr<State*> AdmitRoot(const VerifyItem& item);
  [[nodiscard]] absl::StatusOr<State*> AdmitPrompt(const PrefillItem& item);
  [[nodiscard]] absl::Status Reserve(State& state, size_t tokens);
  [[nodiscard]] int free_pages() const;
  // Pages that only one sequence holds and that are not cached.
  [[nodiscard]] int own_pages() const;
  // Frees the pages beyond the committed tokens of all sequences. Caches full pages.
  void UpdatePages();
  // The prefix that ends after the shared pages of `state` and one more page of `tokens`.
  [[nodiscard]] static std::optional<Prefix> NextPrefix(const State& state,
                                                        const std::vector<TokenId>& tokens);
  // Closes a live sequence.
  void Erase(std::map<uint64_t, State>::iterator live);

  std::map<uint64_t, State> live_;  // By session.
  std::map<Prefix, int> cached_;    // Full pages, and how many live sequences share each.
  std::set<uint64_t> seen_;         // Sessions of this call.
};

class FakeDrafter final : public Drafter {
 public:
  static constexpr int kPositions = 7;

  // Reads the committed tokens of `target`, where a real drafter reads features. `target` is not
  // owned and must outlive this object.
  explicit FakeDrafter(const FakeVerifier* target) : target_(target) {}

  absl::StatusOr<DrafterInfo> Info() override;
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId sequence) override;

  // True: an autoregressive drafter, which expands every node and predicts one position.
  bool expands_nodes = false;
  // True: a drafter with a pair selector, which knows the target's tokens where its marginals are
  // wrong.
  bool scores_pairs = false;

  // ---- faults that a test can set ----
  int percent_right = 70;                    // How often the top candidate is the target's token.
  std::optional<absl::Status> call_error;    // Returned by every Info and Expand.
  std::optional<absl::Status> expand_error;  // Returned by every Expand.
  bool sends_invalid_marginals = false;
  int vocabulary = kToyVocabulary;

  std::vector<Frontier> frontiers;  // From all Expand calls, in order.
  std::vector<SequenceId> closed;   // From all Close calls, in order.
  int info_calls = 0;

 private:
  [[nodiscard]] int positions() const { return expands_nodes ? 1 : kPositions; }
  // The pair scores of `position`, whose candidates `marginals` has: `truth` follows all tokens.
  static void AddPairScores(int position, TokenId truth, Marginals* marginals);
  [[nodiscard]] Marginals MarginalsAfter(const std::vector<TokenId>& prefix,
                                         const Frontier& frontier) const;

  const FakeVerifier* const target_;
  std::map<uint64_t, uint32_t> epochs_;  // By session.
  // By session: the committed tokens and the root of the tree whose nodes can be expanded.
  std::map<uint64_t, std::pair<Position, TokenId>> trees_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_FAKE_STAGES_H_
