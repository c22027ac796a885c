// eagle[:width[,depth[,n]]]: the tree of EAGLE-2 and EAGLE-3 (tree/eagle.h). `width` and `depth`
// are at most kMaxUsefulCandidates and kMaxDepth. `n` counts the root, as the authors' total_tokens
// does, so it is at least 2.
#ifndef BASTION_ORCHESTRATOR_POLICY_EAGLE_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_EAGLE_POLICY_H_

#include <memory>
#include <optional>
#include <string_view>

#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/tree/eagle.h"

namespace bastion {

class EaglePolicy final : public NamedPolicyKind {
 public:
  static constexpr int kMaxDepth = 64;

  static std::unique_ptr<const PolicyKind> Parse(std::optional<std::string_view> argument);
  explicit EaglePolicy(const EagleShape& shape) : shape_(shape) {}

  int CandidatesFor(int max_nodes) const override;
  int max_rounds() const override { return shape_.depth + 1; }
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& costs) const override;

  [[nodiscard]] const EagleShape& shape() const { return shape_; }

 private:
  const EagleShape shape_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_EAGLE_POLICY_H_
