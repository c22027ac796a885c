// Costs and proposals for tests of the planner. Header-only.
#ifndef BASTION_TESTS_ORCHESTRATOR_PLANNER_PLANNER_COSTS_H_
#define BASTION_TESTS_ORCHESTRATOR_PLANNER_PLANNER_COSTS_H_

#include <vector>

#include "orchestrator/planner/forest_planner.h"

namespace bastion::testing {

// Seconds: T(n) = `fixed` + n·`node`, D(m) = m·`draft`.
inline BatchCost Linear(double fixed, double node, double draft, int max_nodes, int max_drafts) {
  BatchCost cost;
  for (int n = 0; n <= max_nodes; ++n) cost.verify.push_back(fixed + n * node);
  cost.verify_after_draft = cost.verify;
  for (int m = 0; m <= max_drafts; ++m) cost.draft.push_back(m * draft);
  return cost;
}

// Tiles of eight nodes.
inline BatchCost Stairs(int max_nodes) {
  BatchCost cost;
  for (int n = 0; n <= max_nodes; ++n) cost.verify.push_back(10.0 + 2.0 * ((n + 7) / 8));
  cost.verify_after_draft = cost.verify;
  cost.draft = {0};
  return cost;
}

inline ValueHistogram Values(const std::vector<double>& values) {
  ValueHistogram histogram;
  for (const double value : values) histogram.Add(value);
  return histogram;
}

inline DraftProposal Proposal(const std::vector<double>& without, const std::vector<double>& with) {
  return {.without = Values(without), .with = Values(with)};
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_PLANNER_PLANNER_COSTS_H_
