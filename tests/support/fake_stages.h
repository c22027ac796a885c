// A toy pair behind the borders of the decode cycle, without an engine: a target whose next token
// is a hash of the whole committed prefix (and of the seed, when sampling), and a drafter that
// knows it with some errors. Everything is deterministic. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_FAKE_STAGES_H_
#define BASTION_TESTS_SUPPORT_FAKE_STAGES_H_

#include <map>
#include <optional>
#include <vector>

#include "common/stages/stages.h"

namespace bastion::testing {

inline constexpr int kToyVocabulary = 97;
inline constexpr int kToyContext = 512;
inline constexpr int kToyRows = 256;

// The token that the toy target writes after `prefix`. At temperature 0 the seed does not matter.
[[nodiscard]] TokenId ToyNext(absl::Span<const TokenId> prefix, const ChoiceParams& sampling);
// What plain decoding writes: `count` tokens after `prompt`.
[[nodiscard]] std::vector<TokenId> ToyText(std::vector<TokenId> prompt,
                                           const SamplingParams& sampling, int count);

class FakeVerifier final : public Verifier {
 public:
  absl::StatusOr<TargetInfo> Info() override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) override;
  absl::StatusOr<VerifyResult> Verify(const Forest& forest) override;
  void Close(SequenceId sequence) override;

  // The committed tokens of a live sequence, or nothing.
  [[nodiscard]] const std::vector<TokenId>* Tokens(SequenceId sequence) const;
  [[nodiscard]] int live_sequences() const { return static_cast<int>(live_.size()); }

  // ---- what a test makes go wrong ----
  std::optional<absl::Status> call_fails;      // Every Prefill and Verify.
  std::optional<Acceptance> answers_nonsense;  // Instead of every acceptance.

  Forest last_forest;  // Of the last Verify.

 private:
  struct State {
    SequenceId id;
    SamplingParams sampling;
    std::vector<TokenId> tokens;
  };

  [[nodiscard]] absl::StatusOr<State*> Find(SequenceId id);
  [[nodiscard]] absl::StatusOr<State*> Admit(const VerifyItem& item);

  std::map<uint64_t, State> live_;  // By session.
};

class FakeDrafter final : public Drafter {
 public:
  static constexpr int kPositions = 7;

  // Reads the committed tokens of `target`, as a real one reads features; not owned.
  explicit FakeDrafter(const FakeVerifier* target) : target_(target) {}

  absl::StatusOr<DrafterInfo> Info() override;
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId sequence) override;

  // ---- what a test makes go wrong ----
  int percent_right = 70;                  // How often the top candidate is the target's.
  std::optional<absl::Status> call_fails;  // Every Info and Expand.
  bool answers_nonsense = false;           // Marginals that are not valid.
  int vocabulary = kToyVocabulary;

  std::vector<Frontier> asked;  // All frontiers so far.
  std::vector<SequenceId> closed;
  int info_calls = 0;

 private:
  [[nodiscard]] Marginals MarginalsAfter(const std::vector<TokenId>& prefix,
                                         const Frontier& frontier) const;

  const FakeVerifier* const target_;
  std::map<uint64_t, uint32_t> epochs_;  // By session.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_FAKE_STAGES_H_
