// A cost model for tests: verify times are linear in the number of rows. Header-only.
#ifndef BASTION_TESTS_SUPPORT_LINEAR_COSTS_H_
#define BASTION_TESTS_SUPPORT_LINEAR_COSTS_H_

#include "orchestrator/cost/cost_model.h"

namespace bastion::testing {

// Verify times up to 128 rows: 10 ms plus 0.1 ms per row. The round trip takes 1 ms more.
inline LatencyProfile LinearTable() {
  LatencyProfile table;
  for (const int rows : {1, 16, 128}) {
    const double seconds = 0.010 + 0.0001 * rows;
    table.points.push_back({rows, 100, seconds, seconds + 0.001});
  }
  return table;
}

// The cost model fitted to LinearTable(), for a tiny target.
inline CostModel LinearCosts() {
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  return *CostModel::Fit(target, LinearTable());
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_LINEAR_COSTS_H_
