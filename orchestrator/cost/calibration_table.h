// CalibrationTable: measured verify times over row counts and context lengths. Plain data, made by
// Calibrate() and read by the estimators.
#ifndef BASTION_ORCHESTRATOR_COST_CALIBRATION_TABLE_H_
#define BASTION_ORCHESTRATOR_COST_CALIBRATION_TABLE_H_

#include <vector>

namespace bastion {

struct CalibrationPoint {
  int rows = 0;                   // Of the verify forward, the root included.
  int context = 0;                // Cached tokens.
  double seconds = 0;             // What the verifier says it took: TimingTrace::verify().
  double round_trip_seconds = 0;  // What the caller waited.
};

struct CalibrationTable {
  std::vector<CalibrationPoint> points;

  [[nodiscard]] int max_rows() const;
  // The median of what a call costs beside the verify itself: transport and queue.
  [[nodiscard]] double OverheadSeconds() const;
};

// The table in which every context has all row counts of the smallest one. A point that was not
// measured is that of the smallest context plus what this context adds at its measured row counts:
// linear in between, the same beyond. REQUIRES: what is measured anywhere is so in the smallest.
[[nodiscard]] CalibrationTable FillGrid(const CalibrationTable& measured);

// The middle of `values`, the lower one of two; 0 of none.
[[nodiscard]] double Median(std::vector<double> values);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_CALIBRATION_TABLE_H_
