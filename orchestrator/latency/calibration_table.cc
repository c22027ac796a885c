#include "orchestrator/latency/calibration_table.h"

#include <algorithm>

namespace bastion {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int CalibrationTable::max_rows() const {
  int rows = 0;
  for (const CalibrationPoint& point : points) rows = std::max(rows, point.rows);
  return rows;
}

double CalibrationTable::OverheadSeconds() const {
  std::vector<double> overheads;
  overheads.reserve(points.size());
  for (const CalibrationPoint& point : points) {
    overheads.push_back(std::max(0.0, point.round_trip_seconds - point.seconds));
  }
  return Median(std::move(overheads));
}

}  // namespace bastion
