// A cost model for tests whose costs are a line. Header-only.
#ifndef BASTION_TESTS_SUPPORT_LINEAR_COSTS_H_
#define BASTION_TESTS_SUPPORT_LINEAR_COSTS_H_

#include "orchestrator/cost/cost_model.h"

namespace bastion::testing {

// 128 measured rows: 10 ms and 0.1 ms a row; 1 ms of overhead.
inline CalibrationTable LinearTable() {
  CalibrationTable table;
  for (const int rows : {1, 16, 128}) {
    const double seconds = 0.010 + 0.0001 * rows;
    table.points.push_back({rows, 100, seconds, seconds + 0.001});
  }
  return table;
}

// The same, of a tiny target.
inline CostModel LinearCosts() {
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  return *CostModel::Fit(target, LinearTable());
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_LINEAR_COSTS_H_
