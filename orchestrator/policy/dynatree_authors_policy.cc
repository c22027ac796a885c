#include "orchestrator/policy/dynatree_authors_policy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "orchestrator/policy/shared_learning.h"

namespace bastion {
namespace {

constexpr int kPhases = 3;

// x >= Above(limit) if and only if x > limit.
double Above(double limit) {
  return std::nextafter(limit, std::numeric_limits<double>::infinity());
}

}  // namespace

DynaTreeShape DynaTreeAuthorsPolicy::DefaultShape() {
  return {.stop = 0.1, .deep = 0.5, .prune = 0.05};
}

std::unique_ptr<const PolicyKind> DynaTreeAuthorsPolicy::Parse(PolicyOptions& options) {
  DynaTreeShape shape = DefaultShape();
  int phase = kPhases;
  options.Take("phase", 1, kPhases, &phase);
  if (!TakeShape(options, &shape) || !options.done()) return nullptr;
  return std::make_unique<DynaTreeAuthorsPolicy>(shape, phase);
}

DynaTreeShape DynaTreeAuthorsPolicy::TreeShape() const {
  DynaTreeShape shape = shape_;
  shape.high = Above(shape.high);
  if (phase_ == 1) {
    shape.max_depth = shape.base_depth;
    shape.stop = shape.deep = 0;
    return shape;
  }
  // Algorithm 1 compares the depth of the expanded node, which is one less.
  --shape.base_depth;
  --shape.max_depth;
  shape.deep = Above(shape.deep);
  return shape;
}

int DynaTreeAuthorsPolicy::CandidatesFor(int max_nodes) const {
  return std::min(shape_.max_branches, max_nodes);
}

GrownTree DynaTreeAuthorsPolicy::Grow(TokenId root, Candidates& candidates,
                                      const TreeLimits& limits, int horizon,
                                      const CostModel& /*costs*/) const {
  return GrowShape(root, candidates, TreeShape(), limits, horizon);
}

std::unique_ptr<NamedPolicyKind> DynaTreeAuthorsPolicy::ForRequest(
    const PolicyContext& context) const {
  if (phase_ < kPhases) return nullptr;
  const DynaTreeLevels initial = {shape_.base_depth, shape_.high, shape_.deep};
  DynaTreeHistory& history = context.memory->dynatree_history(
      context.policy.text(), DynaTreeHistory(initial, shape_.max_depth));
  auto own = std::make_unique<DynaTreeAuthorsPolicy>(shape_, phase_);
  own->generation_ = history.Begin();
  own->shape_.base_depth = history.levels().base_depth;
  own->shape_.high = history.levels().high;
  own->shape_.deep = history.levels().deep;
  return own;
}

void DynaTreeAuthorsPolicy::Observe(const DraftTree& /*tree*/, int accepted) {
  ++generation_->cycles;
  generation_->committed += accepted + 1;
}

}  // namespace bastion
