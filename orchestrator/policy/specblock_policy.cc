#include "orchestrator/policy/specblock_policy.h"

#include <algorithm>
#include <utility>

#include "orchestrator/policy/policy_options.h"

namespace bastion {

std::unique_ptr<const PolicyKind> SpecBlockPolicy::Parse(std::optional<std::string_view> argument) {
  std::optional<PolicyOptions> options = PolicyOptions::Parse(argument);
  if (!options.has_value()) return nullptr;
  SpecBlockShape shape;
  shape.literal = options->word() == "literal";
  if (!shape.literal && !options->word().empty()) return nullptr;
  if (shape.literal) {
    shape.starts = kLiteralStarts;
    int any = 0;
    options->Take("any", 0, 1, &any);
    shape.any_bucket = any == 1;
  }
  options->Take("map", 0, kMaxUsefulCandidates, absl::MakeSpan(shape.map));
  options->Take("n", 1, kLargestPolicyNumber, &shape.nodes);
  options->Take("m", 1, kMaxBlocks, &shape.blocks);
  options->Take("starts", 1, kLargestPolicyNumber, &shape.starts);
  options->Take("uniform", 1, kMaxUsefulCandidates, &shape.uniform);
  if (!options->done()) return nullptr;
  return std::make_unique<SpecBlockPolicy>(shape);
}

int SpecBlockPolicy::CandidatesFor(int max_nodes) const {
  int width = std::max(1, *std::max_element(shape_.map.begin(), shape_.map.end()));
  if (!shape_.literal) width = std::max(width, SpecBlockShape::kRootWidth);
  if (shape_.uniform > 0) width = shape_.uniform;
  return std::min({width, shape_.nodes, max_nodes});
}

GrownTree SpecBlockPolicy::Grow(TokenId root, Candidates& candidates, const TreeLimits& limits,
                                int horizon, const CostModel& /*costs*/) const {
  SpecBlockShape shape = shape_;
  shape.nodes = std::min(shape.nodes, limits.nodes);
  if (shape.nodes < 1) return {DraftTree(root), limits.reason};
  DraftTree tree = GrowSpecBlock(root, candidates, shape);
  // The policy names no size, except the largest one.
  const int wanted = tree.nodes() < shape.nodes ? tree.nodes() : shape_.nodes;
  return Limit(std::move(tree), wanted, limits, horizon);
}

}  // namespace bastion
