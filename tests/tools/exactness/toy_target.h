// ToyTarget: a small language model that implements Verifier. Its logits are a function of the last
// two tokens. It uses the real keyed noise, applies penalties along tree paths and has its own
// acceptance walk. A ToyFault makes it wrong in a way that the checks must detect. Deterministic
// and thread-compatible.
#ifndef BASTION_TESTS_TOOLS_EXACTNESS_TOY_TARGET_H_
#define BASTION_TESTS_TOOLS_EXACTNESS_TOY_TARGET_H_

#include <map>
#include <vector>

#include "common/stages/stages.h"

namespace bastion::testing {

inline constexpr int kToyTokens = 12;  // Vocabulary size.

enum class ToyFault {
  kNone,
  kArgmaxWalk,       // Accepts the child with the most likely token instead of the chosen one.
  kNoPositionInKey,  // Uses the same noise at every position.
  kLeakyPenalty,     // The penalties of a row count the tokens of all branches.
};

// The toy's logits [kToyTokens] after the tokens `before` and `last`.
[[nodiscard]] std::vector<float> ToyLogits(TokenId before, TokenId last);

class ToyTarget final : public Verifier {
 public:
  explicit ToyTarget(ToyFault fault = ToyFault::kNone) : fault_(fault) {}

  absl::StatusOr<TargetInfo> Info() override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<int> ReusePrefix(const PrefixItem&) override { return 0; }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override;
  void Close(SequenceId sequence) override { live_.erase(sequence.session); }

  [[nodiscard]] size_t live_sequences() const { return live_.size(); }

 private:
  struct State {
    SamplingParams sampling;
    std::vector<TokenId> tokens;
  };

  [[nodiscard]] TokenId Choose(const State& state, const std::vector<TokenId>& path,
                               const std::vector<TokenId>& penalized) const;
  [[nodiscard]] Acceptance Walk(State& state, const DraftTree& tree) const;

  const ToyFault fault_;
  std::map<uint64_t, State> live_;  // By session.
};

// Predicts from the last token alone, so it is often right and often wrong.
class ToyDrafter final : public Drafter {
 public:
  absl::StatusOr<DrafterInfo> Info() override;
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId) override {}

  bool silent = false;  // True: return no candidates.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_TOOLS_EXACTNESS_TOY_TARGET_H_
