// specblock[:options]: the tree of SpecBlock (tree/specblock.h), as its authors' code grows it.
// `specblock:literal` follows the paper's text instead.
//
// Options, as name=value after commas: map (widths by bucket, as 2-4-10-0), n (nodes), m (blocks
// per path), starts (starts per round), uniform (one width for all positions), and with `literal`
// any (1: siblings of all buckets may start blocks).
#ifndef BASTION_ORCHESTRATOR_POLICY_SPECBLOCK_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_SPECBLOCK_POLICY_H_

#include <memory>
#include <optional>
#include <string_view>

#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/tree/specblock.h"

namespace bastion {

class SpecBlockPolicy final : public NamedPolicyKind {
 public:
  static constexpr int kMaxBlocks = 16;
  static constexpr int kLiteralStarts = 8;

  static std::unique_ptr<const PolicyKind> Parse(std::optional<std::string_view> argument);
  explicit SpecBlockPolicy(const SpecBlockShape& shape) : shape_(shape) {}

  int CandidatesFor(int max_nodes) const override;
  int max_rounds() const override { return shape_.blocks; }
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& costs) const override;

  [[nodiscard]] const SpecBlockShape& shape() const { return shape_; }

 private:
  const SpecBlockShape shape_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_SPECBLOCK_POLICY_H_
