// dynatree:authors[,options]: DynaTree as its authors ran it. Their code
// (github.com/cny123222/DynaTree) differs from the paper's Algorithm 1:
//
//   - D_0 and D_max limit the depth of the children below u0, not that of the expanded node.
//   - A node beyond D_0 needs p > ρ_deep, and B_min needs c > τ_h: equality does not suffice.
//   - The historical adjustment is made once per generation (dynatree_history.h).
//
// The defaults are those of their main experiment: B 1, 2, 3; τ_h 0.9, τ_l 0.4; D_0 5, D_max 8;
// ρ_stop 0.1, ρ_deep 0.5, τ 0.05; N_max 256. Options as of `dynatree`, without w. `phase` (3) is
// what their ablation leaves: 1 branches by confidence, down to D_0 everywhere; 2 adds the dynamic
// depth; 3 adds the adjustment.
#ifndef BASTION_ORCHESTRATOR_POLICY_DYNATREE_AUTHORS_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_DYNATREE_AUTHORS_POLICY_H_

#include <memory>

#include "orchestrator/policy/dynatree_history.h"
#include "orchestrator/policy/dynatree_policy.h"
#include "orchestrator/tree/dynatree.h"

namespace bastion {

class DynaTreeAuthorsPolicy final : public DynaTreeKind {
 public:
  // `shape` has the names of the paper: D_0 and D_max as the authors compare them.
  static DynaTreeShape DefaultShape();
  // Null if the options are wrong. REQUIRES: the word "authors" was taken from them.
  static std::unique_ptr<const PolicyKind> Parse(PolicyOptions& options);
  DynaTreeAuthorsPolicy(const DynaTreeShape& shape, int phase) : shape_(shape), phase_(phase) {}

  int CandidatesFor(int max_nodes) const override;
  int max_rounds() const override { return TreeShape().max_depth + 1; }
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& costs) const override;
  // Null before phase 3.
  std::unique_ptr<NamedPolicyKind> ForRequest(const PolicyContext& context) const override;
  void Observe(const DraftTree& tree, int accepted) override;

  // The shape that Algorithm 1 needs to grow the authors' tree.
  [[nodiscard]] DynaTreeShape TreeShape() const;

 private:
  DynaTreeShape shape_;
  int phase_;
  std::shared_ptr<DynaTreeHistory::Generation> generation_;  // Copies only.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_DYNATREE_AUTHORS_POLICY_H_
