#include "orchestrator/cost/latency_profile.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace bastion {
namespace {

using Column = std::map<int, ProfilePoint>;  // By rows.

// How many seconds longer `column` takes than `base` at `rows`. Interpolated between the rows of
// `column`; constant outside them.
double ExtraSeconds(const Column& column, const Column& base, int rows) {
  const auto at = [&](Column::const_iterator point) {
    return std::max(0.0, point->second.seconds - base.at(point->first).seconds);
  };
  const auto above = column.lower_bound(rows);
  if (above == column.begin()) return at(above);
  const auto below = std::prev(above);
  if (above == column.end()) return at(below);
  const double weight = static_cast<double>(rows - below->first) / (above->first - below->first);
  return at(below) + (at(above) - at(below)) * weight;
}

}  // namespace

LatencyProfile FillGrid(const LatencyProfile& measured) {
  std::map<int, Column> columns;  // By context.
  for (const ProfilePoint& point : measured.points) columns[point.context][point.rows] = point;
  LatencyProfile table;
  for (const auto& [context, column] : columns) {
    const Column& base = columns.begin()->second;
    for (auto [rows, point] : base) {
      const auto own = column.find(rows);
      if (own != column.end()) {
        point = own->second;
      } else {
        const double extra = ExtraSeconds(column, base, rows);
        point = {rows,
                 context,
                 point.seconds + extra,
                 point.round_trip_seconds + extra,
                 /*interpolated=*/true,
                 point.experts};
      }
      table.points.push_back(point);
    }
  }
  return table;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

int LatencyProfile::max_rows() const {
  int rows = 0;
  for (const ProfilePoint& point : points) rows = std::max(rows, point.rows);
  return rows;
}

double LatencyProfile::OverheadSeconds() const {
  std::vector<double> overheads;
  overheads.reserve(points.size());
  for (const ProfilePoint& point : points) {
    overheads.push_back(std::max(0.0, point.round_trip_seconds - point.seconds));
  }
  return Median(std::move(overheads));
}

}  // namespace bastion
