// A toy language model behind the verify stage: real logits as a function of the last two tokens,
// the real keyed noise, penalties over tree paths and its own acceptance walk. It can be made wrong
// in the ways that the checks must notice. Everything is deterministic. Thread-compatible.
#ifndef BASTION_TESTS_CLIENT_EXACTNESS_TOY_TARGET_H_
#define BASTION_TESTS_CLIENT_EXACTNESS_TOY_TARGET_H_

#include <map>
#include <vector>

#include "common/stages/stages.h"

namespace bastion::testing {

inline constexpr int kToyTokens = 12;  // Vocabulary.

enum class ToyFault {
  kNone,
  kArgmaxWalk,       // Accepts a child when it is the likeliest token, not the chosen one.
  kNoPositionInKey,  // The same noise at every position.
  kLeakyPenalty,     // A row's penalties see the tokens of all other branches.
};

// The toy's logits [kToyTokens] after `before`, `last`.
[[nodiscard]] std::vector<float> ToyLogits(TokenId before, TokenId last);

class ToyTarget final : public Verifier {
 public:
  explicit ToyTarget(ToyFault fault = ToyFault::kNone) : fault_(fault) {}

  absl::StatusOr<TargetInfo> Info() override;
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override;
  absl::StatusOr<TimingTrace> Prefill(const PrefillItem& item) override;
  absl::StatusOr<VerifyResult> Verify(const Forest& forest) override;
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

// Guesses from the last token alone, so it is often right and often wrong.
class ToyDrafter final : public Drafter {
 public:
  absl::StatusOr<DrafterInfo> Info() override;
  absl::StatusOr<std::vector<Draft>> Expand(absl::Span<const Frontier> frontiers) override;
  void Close(SequenceId) override {}

  bool silent = false;  // Has nothing to say.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_CLIENT_EXACTNESS_TOY_TARGET_H_
