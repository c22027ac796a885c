// assisted: the assisted generation of Hugging Face's `transformers` (5.23) with its default
// schedule. The drafter proposes a chain of up to 20 tokens ("constant" schedule) and stops after
// the first token whose probability is below a confidence threshold, 0.4 at first.
//
// After each cycle the threshold becomes the one that would have separated accepted from rejected
// tokens best so far: over the receiver operating characteristic of the tokens' probabilities
// against their acceptance, it minimizes the rate of false positives plus three times the rate of
// false negatives. A rejected token counts once per cycle; the tokens after it do not count. This
// starts when more than five tokens are known, among them both kinds. A request has its own
// history.
//
// The drafter of `transformers` also stops after a token that ends the text. Ours does not know
// these tokens, which costs a few nodes in the last cycle of a request.
#ifndef BASTION_ORCHESTRATOR_POLICY_ASSISTED_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_ASSISTED_POLICY_H_

#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/policy/policy_kind.h"

namespace bastion {

// A drafted token: its probability, and whether the target accepted it.
struct AssistedToken {
  double probability;
  bool accepted;
};

// The best threshold for `tokens`, as described above. REQUIRES: both kinds occur.
[[nodiscard]] double BestThreshold(absl::Span<const AssistedToken> tokens);

class AssistedPolicy final : public NamedPolicyKind {
 public:
  static constexpr int kTokens = 20;
  static constexpr double kFirstThreshold = 0.4;

  int CandidatesFor(int max_nodes) const override { return max_nodes > 0 ? 1 : 0; }
  int max_rounds() const override { return kTokens; }
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& costs) const override;
  std::unique_ptr<NamedPolicyKind> ForRequest(const PolicyContext& /*context*/) const override {
    return std::make_unique<AssistedPolicy>();
  }
  void Observe(const DraftTree& tree, int accepted) override;

  [[nodiscard]] double threshold() const { return threshold_; }

 private:
  double threshold_ = kFirstThreshold;
  std::vector<AssistedToken> tokens_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_ASSISTED_POLICY_H_
