#include "orchestrator/policy/eagle_policy.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace bastion {

std::unique_ptr<const PolicyKind> EaglePolicy::Parse(std::optional<std::string_view> argument) {
  EagleShape shape;
  if (!argument.has_value()) return std::make_unique<EaglePolicy>(shape);
  struct Part {
    int* value;
    int lowest, highest;
  };
  const Part parts[] = {{&shape.width, 1, kMaxUsefulCandidates},
                        {&shape.depth, 1, kMaxDepth},
                        {&shape.nodes, 2, kLargestPolicyNumber}};
  const std::vector<absl::string_view> texts =
      absl::StrSplit(absl::string_view(argument->data(), argument->size()), ',');
  if (texts.size() > std::size(parts)) return nullptr;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::optional<int> number = ParsePolicyNumber({texts[i].data(), texts[i].size()});
    if (!number.has_value() || *number < parts[i].lowest || *number > parts[i].highest) {
      return nullptr;
    }
    *parts[i].value = *number;
  }
  return std::make_unique<EaglePolicy>(shape);
}

int EaglePolicy::CandidatesFor(int max_nodes) const {
  return std::min({shape_.width, shape_.nodes - 1, max_nodes});
}

GrownTree EaglePolicy::Grow(TokenId root, Candidates& candidates, const TreeLimits& limits,
                            int horizon, const CostModel& /*costs*/) const {
  const int pool = shape_.width + shape_.depth * shape_.width * shape_.width;
  return Limit(GrowEagle(root, candidates, shape_, limits.nodes), std::min(shape_.nodes - 1, pool),
               limits, horizon);
}

}  // namespace bastion
