#include "orchestrator/cost/staircase.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

// The non-decreasing sequence nearest to `values` in the least-squares sense (pool adjacent
// violators). Keeps measurement noise from making more rows look cheaper.
std::vector<double> NonDecreasing(const std::vector<double>& values) {
  struct Pool {
    double mean;
    int count;
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean > pools.back().mean) {
      const Pool last = pools.back();
      pools.pop_back();
      Pool& merged = pools.back();
      merged.mean =
          (merged.mean * merged.count + last.mean * last.count) / (merged.count + last.count);
      merged.count += last.count;
    }
  }
  std::vector<double> result;
  for (const Pool& pool : pools) result.insert(result.end(), pool.count, pool.mean);
  return result;
}

struct Sum {
  double seconds = 0;
  int count = 0;
};

}  // namespace

absl::StatusOr<Staircase> Staircase::Make(absl::Span<const ProfilePoint> points) {
  std::set<int> rows;
  std::set<int> contexts;
  std::map<std::pair<int, int>, Sum> cells;
  for (const ProfilePoint& point : points) {
    if (!(point.seconds > 0) || point.rows < 1 || point.context < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "staircase: invalid profile point: ", point.rows, " rows, context ", point.context, ", ",
          point.seconds, " s; rows and seconds must be positive, context not negative"));
    }
    rows.insert(point.rows);
    contexts.insert(point.context);
    Sum& cell = cells[{point.context, point.rows}];
    cell.seconds += point.seconds;
    ++cell.count;
  }
  if (cells.empty() || cells.size() != rows.size() * contexts.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("staircase: ", cells.size(), " measured points do not form a full grid of ",
                     rows.size(), " row counts and ", contexts.size(), " contexts"));
  }
  std::vector<double> seconds(cells.size());
  for (auto context = contexts.begin(); context != contexts.end(); ++context) {
    std::vector<double> column;
    for (const int row_count : rows) {
      const Sum& cell = cells[{*context, row_count}];
      column.push_back(cell.seconds / cell.count);
    }
    column = NonDecreasing(column);
    const auto offset = static_cast<size_t>(std::distance(contexts.begin(), context));
    for (size_t r = 0; r < column.size(); ++r) seconds[r * contexts.size() + offset] = column[r];
  }
  return Staircase({rows.begin(), rows.end()}, {contexts.begin(), contexts.end()},
                   std::move(seconds));
}

Staircase::Staircase(std::vector<int> rows, std::vector<int> contexts, std::vector<double> seconds)
    : rows_(std::move(rows)),
      contexts_(std::move(contexts)),
      seconds_(std::move(seconds)),
      row_factors_(rows_.size(), 1.0) {}

Staircase::Location Staircase::Locate(const std::vector<int>& knots, int at) {
  if (knots.size() == 1 || at <= knots.front()) return {};
  const auto above = std::upper_bound(knots.begin(), knots.end() - 1, at);
  const auto low = static_cast<int>(above - knots.begin()) - 1;
  return {low, static_cast<double>(at - knots[low]) / (knots[low + 1] - knots[low])};
}

double Staircase::SecondsAtKnot(int row_index, const Location& context) const {
  const double* cells = &seconds_[static_cast<size_t>(row_index) * contexts_.size()];
  const double low = cells[context.low];
  // A time that decreases with the context is noise, so it is not extrapolated.
  const double rise = context.weight > 0 ? cells[context.low + 1] - low : 0.0;
  const double seconds = low + (context.weight > 1 ? std::max(rise, 0.0) : rise) * context.weight;
  return seconds * row_factors_[row_index] * factor_;
}

absl::Duration Staircase::Predict(int rows, int context) const {
  const Location row = Locate(rows_, rows);
  const Location column = Locate(contexts_, context);
  // The row factors may break the order of the row counts. The running maximum restores it.
  double low = 0;
  for (int r = 0; r <= row.low; ++r) low = std::max(low, SecondsAtKnot(r, column));
  if (row.weight == 0) return absl::Seconds(low);
  const double high = std::max(low, SecondsAtKnot(row.low + 1, column));
  return absl::Seconds(low + (high - low) * row.weight);
}

// Gives the same values as Predict but visits each knot only once.
void Staircase::Curve(int context, absl::Span<double> seconds) const {
  const Location column = Locate(contexts_, context);
  const auto last = static_cast<int>(rows_.size()) - 1;
  int knot = 0;
  double low = SecondsAtKnot(0, column);
  double high = last > 0 ? std::max(low, SecondsAtKnot(1, column)) : low;
  for (int rows = 1; rows <= static_cast<int>(seconds.size()); ++rows) {
    while (knot + 1 < last && rows >= rows_[knot + 1]) {
      ++knot;
      low = high;
      high = std::max(low, SecondsAtKnot(knot + 1, column));
    }
    const double weight =
        rows <= rows_[knot] || last == 0
            ? 0.0
            : static_cast<double>(rows - rows_[knot]) / (rows_[knot + 1] - rows_[knot]);
    seconds[rows - 1] = low + (high - low) * weight;
  }
}

void Staircase::Observe(int rows, int context, absl::Duration observed) {
  if (observed <= absl::ZeroDuration()) return;
  const Location row = Locate(rows_, rows);
  const Location column = Locate(contexts_, context);
  // Does not use the running maximum, because it would attribute a neighbor's error to this factor.
  double predicted = SecondsAtKnot(row.low, column);
  if (row.weight > 0) {
    predicted += (SecondsAtKnot(row.low + 1, column) - predicted) * row.weight;
  }
  if (!(predicted > 0)) return;
  const double residual =
      std::log(std::clamp(absl::ToDoubleSeconds(observed) / predicted, 0.5, 2.0));
  factor_ *= std::exp(kAlpha * residual);
  const double at = std::log2(std::clamp(rows, rows_.front(), rows_.back()));
  for (size_t r = 0; r < rows_.size(); ++r) {
    const double share = std::max(0.0, 1 - std::abs(std::log2(rows_[r]) - at));
    double& factor = row_factors_[r];
    factor = std::clamp(factor * std::exp(kAlpha * share * residual), 0.25, 4.0);
  }
  // Fewer rows cannot take longer than these. Without this, the running maximum of Predict would
  // keep the prediction above what is observed.
  for (int r = row.low + (row.weight > 0 ? 1 : 0); r > 0 && residual < 0; --r) {
    const double ratio = SecondsAtKnot(r, column) / SecondsAtKnot(r - 1, column);
    if (ratio < 1) row_factors_[r - 1] *= ratio;
  }
}

}  // namespace bastion
