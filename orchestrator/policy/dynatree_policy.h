// dynatree[:options]: DynaTree (tree/dynatree.h) with its historical adjustment.
//
// Options, as name=value after commas: bmin, bmid, bmax (branches), high, low (confidence
// thresholds), d0, dmax (depths), stop, deep, prune (path probabilities), leaves (0: nodes below
// `prune` are not verified), n (nodes), w (window of the historical adjustment; 0: off).
// `dynatree:fixed` is the fixed tree of the paper's baseline, which dmax (5), bmax (2), prune (0)
// and n (256) change. `dynatree:authors` is dynatree_authors_policy.h.
//
// Historical adjustment (§3.3): the mean share of accepted nodes over the last w cycles moves D_0
// and τ_h. The paper promises the schedule in Appendix D, but does not print it. Ours: after every
// w cycles, a mean of at least kHighAcceptance makes D_0 one larger and τ_h 0.05 smaller, and a
// mean below kLowAcceptance does the reverse. D_0 stays in [1, D_max − 1], τ_h in [τ_l + 0.05,
// 0.95]. A request has its own history.
#ifndef BASTION_ORCHESTRATOR_POLICY_DYNATREE_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_DYNATREE_POLICY_H_

#include <memory>
#include <optional>
#include <string_view>

#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/policy/policy_options.h"
#include "orchestrator/tree/dynatree.h"

namespace bastion {

// What the policies of DynaTree trees share.
class DynaTreeKind : public NamedPolicyKind {
 protected:
  // Takes the options of a shape, w excluded. False if they contradict each other.
  [[nodiscard]] static bool TakeShape(PolicyOptions& options, DynaTreeShape* shape);
  // Grows a tree and cuts it to the limits.
  [[nodiscard]] static GrownTree GrowShape(TokenId root, Candidates& candidates,
                                           const DynaTreeShape& shape, const TreeLimits& limits,
                                           int horizon);
};

class DynaTreePolicy final : public DynaTreeKind {
 public:
  static constexpr double kHighAcceptance = 0.5, kLowAcceptance = 0.25;
  static constexpr int kDefaultWindow = 8;

  static std::unique_ptr<const PolicyKind> Parse(std::optional<std::string_view> argument);
  // `window` 0: no historical adjustment.
  explicit DynaTreePolicy(const DynaTreeShape& shape, int window = kDefaultWindow)
      : shape_(shape), window_(window) {}

  int CandidatesFor(int max_nodes) const override;
  // The nodes are at most max_depth levels below u0, which the first round finds.
  int max_rounds() const override { return shape_.max_depth + 1; }
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& costs) const override;
  std::unique_ptr<NamedPolicyKind> ForRequest(const PolicyContext& context) const override;
  void Observe(const DraftTree& tree, int accepted) override;

  [[nodiscard]] const DynaTreeShape& shape() const { return shape_; }

 private:
  DynaTreeShape shape_;
  const int window_;

  int cycles_ = 0;     // Since the last adjustment.
  double shares_ = 0;  // The sum of their shares of accepted nodes.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_DYNATREE_POLICY_H_
