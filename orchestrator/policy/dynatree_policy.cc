#include "orchestrator/policy/dynatree_policy.h"

#include <algorithm>
#include <utility>

#include "orchestrator/policy/dynatree_authors_policy.h"

namespace bastion {
namespace {

constexpr int kMaxDepth = 64;
constexpr int kMaxWindow = 1024;
// How far one adjustment moves τ_h, and its upper limit.
constexpr double kHighStep = 0.05, kHighest = 0.95;

}  // namespace

bool DynaTreeKind::TakeShape(PolicyOptions& options, DynaTreeShape* shape) {
  int leaves = 1;
  options.Take("bmin", 1, kMaxUsefulCandidates, &shape->min_branches);
  options.Take("bmid", 1, kMaxUsefulCandidates, &shape->mid_branches);
  options.Take("bmax", 1, kMaxUsefulCandidates, &shape->max_branches);
  options.Take("high", 0.0, 1.0, &shape->high);
  options.Take("low", 0.0, 1.0, &shape->low);
  options.Take("d0", 1, kMaxDepth, &shape->base_depth);
  options.Take("dmax", 1, kMaxDepth, &shape->max_depth);
  options.Take("stop", 0.0, 1.0, &shape->stop);
  options.Take("deep", 0.0, 1.0, &shape->deep);
  options.Take("prune", 0.0, 1.0, &shape->prune);
  options.Take("leaves", 0, 1, &leaves);
  options.Take("n", 1, kLargestPolicyNumber, &shape->nodes);
  shape->keeps_leaves = leaves == 1;
  return shape->min_branches <= shape->mid_branches && shape->mid_branches <= shape->max_branches &&
         shape->low <= shape->high && shape->base_depth <= shape->max_depth &&
         shape->stop <= shape->deep;
}

std::unique_ptr<const PolicyKind> DynaTreePolicy::Parse(std::optional<std::string_view> argument) {
  std::optional<PolicyOptions> options = PolicyOptions::Parse(argument);
  if (!options.has_value()) return nullptr;
  if (options->word() == "authors") return DynaTreeAuthorsPolicy::Parse(*options);
  if (options->word() == "fixed") {
    int depth = 5, branches = 2, nodes = 256;
    double prune = 0;
    options->Take("dmax", 1, kMaxDepth, &depth);
    options->Take("bmax", 1, kMaxUsefulCandidates, &branches);
    options->Take("prune", 0.0, 1.0, &prune);
    options->Take("n", 1, kLargestPolicyNumber, &nodes);
    if (!options->done()) return nullptr;
    DynaTreeShape shape = FixedTreeShape(depth, branches, nodes);
    shape.prune = prune;
    return std::make_unique<DynaTreePolicy>(shape, /*window=*/0);
  }
  if (!options->word().empty()) return nullptr;
  DynaTreeShape shape;
  int window = kDefaultWindow;
  options->Take("w", 0, kMaxWindow, &window);
  if (!TakeShape(*options, &shape) || !options->done()) return nullptr;
  return std::make_unique<DynaTreePolicy>(shape, window);
}

GrownTree DynaTreeKind::GrowShape(TokenId root, Candidates& candidates, const DynaTreeShape& shape,
                                  const TreeLimits& limits, int horizon) {
  DynaTreeShape limited = shape;
  limited.nodes = std::min(shape.nodes, limits.nodes);
  DraftTree tree = GrowDynaTree(root, candidates, limited);
  // The policy names no size, except the largest one.
  const int wanted = tree.nodes() < limited.nodes ? tree.nodes() : shape.nodes;
  return Limit(std::move(tree), wanted, limits, horizon);
}

int DynaTreePolicy::CandidatesFor(int max_nodes) const {
  return std::min(shape_.max_branches, max_nodes);
}

GrownTree DynaTreePolicy::Grow(TokenId root, Candidates& candidates, const TreeLimits& limits,
                               int horizon, const CostModel& /*costs*/) const {
  return GrowShape(root, candidates, shape_, limits, horizon);
}

std::unique_ptr<NamedPolicyKind> DynaTreePolicy::ForRequest(
    const PolicyContext& /*context*/) const {
  return std::make_unique<DynaTreePolicy>(shape_, window_);
}

void DynaTreePolicy::Observe(const DraftTree& tree, int accepted) {
  if (window_ == 0 || tree.nodes() == 0) return;
  shares_ += static_cast<double>(accepted) / tree.nodes();
  if (++cycles_ < window_) return;
  const double mean = std::exchange(shares_, 0) / std::exchange(cycles_, 0);
  const int step = mean >= kHighAcceptance ? 1 : mean < kLowAcceptance ? -1 : 0;
  shape_.base_depth = std::clamp(shape_.base_depth + step, 1, std::max(1, shape_.max_depth - 1));
  const double lowest = std::min(shape_.low + kHighStep, kHighest);
  shape_.high = std::clamp(shape_.high - step * kHighStep, lowest, kHighest);
}

}  // namespace bastion
