#include "orchestrator/cost/expert_cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace bastion {
namespace {

// The experts take at most this share of any profiled time.
constexpr double kMaxShare = 0.9;

}  // namespace

std::shared_ptr<ExpertCost> ExpertCost::Make(const LatencyProfile& table) {
  if (table.points.empty() || !(table.expert_seconds > 0)) return nullptr;
  int context = table.points.front().context;
  for (const ProfilePoint& point : table.points) context = std::min(context, point.context);
  std::map<int, Knot> measured;  // By rows.
  for (const ProfilePoint& point : table.points) {
    if (point.context != context || !(point.experts > 0) || !(point.seconds > 0)) continue;
    measured[point.rows] = {
        .rows = 1.0 * point.rows, .experts = point.experts, .seconds = point.seconds};
  }
  if (measured.size() < 2) return nullptr;
  std::vector<Knot> knots;
  double expert_seconds = table.expert_seconds;
  Knot most;
  for (const auto& [rows, knot] : measured) {
    most.rows = knot.rows;
    most.experts = std::max(most.experts, knot.experts);
    most.seconds = std::max(most.seconds, knot.seconds);
    expert_seconds = std::min(expert_seconds, kMaxShare * most.seconds / most.experts);
    knots.push_back(most);
  }
  return std::shared_ptr<ExpertCost>(new ExpertCost(std::move(knots), expert_seconds));
}

ExpertCost::ExpertCost(std::vector<Knot> knots, double expert_seconds)
    : knots_(std::move(knots)), expert_seconds_(expert_seconds) {}

ExpertCost::Knot ExpertCost::At(double rows) const {
  if (rows <= knots_.front().rows) return knots_.front();
  const auto above = std::find_if(knots_.begin() + 1, knots_.end() - 1,
                                  [&](const Knot& knot) { return knot.rows >= rows; });
  const Knot& low = *(above - 1);
  const double weight = (rows - low.rows) / (above->rows - low.rows);
  const double inside = std::min(weight, 1.0);
  return {.rows = rows,
          .experts = low.experts + inside * (above->experts - low.experts),
          .seconds = low.seconds + weight * (above->seconds - low.seconds),
          .log_factor = low.log_factor + inside * (above->log_factor - low.log_factor)};
}

double ExpertCost::RowsThatTouch(double experts) const {
  const auto above = std::find_if(knots_.begin(), knots_.end(),
                                  [&](const Knot& knot) { return knot.experts >= experts; });
  if (above == knots_.end()) return knots_.back().rows;
  if (above == knots_.begin()) return above->rows;
  const Knot& low = *(above - 1);
  return low.rows +
         (above->rows - low.rows) * (experts - low.experts) / (above->experts - low.experts);
}

double ExpertCost::Diversity(int rows) const {
  return std::exp(log_diversity_ + At(rows).log_factor);
}

double ExpertCost::Expected(int rows) const { return At(1 + Diversity(rows) * (rows - 1)).experts; }

double ExpertCost::Factor(int rows, double experts) const {
  const Knot knot = At(rows);
  return 1 + expert_seconds_ * (experts - knot.experts) / knot.seconds;
}

void ExpertCost::Observe(int rows, double experts) {
  if (rows < 2 || !(experts > 0)) return;
  // If all experts are touched, as expected, the call does not tell how diverse its rows are.
  if (experts >= knots_.back().experts && Expected(rows) >= knots_.back().experts) return;
  const double explained = (RowsThatTouch(experts) - 1) / (rows - 1);
  const double error = std::log(std::clamp(explained, 1.0 / 64, 4.0) / Diversity(rows));
  log_diversity_ += std::max(kAlpha, 1.0 / ++observations_) * error;
  for (Knot& knot : knots_) {
    const double share = 1 - std::abs(std::log2(knot.rows / rows));
    if (share > 0) knot.log_factor += kAlpha * share * error;
  }
}

}  // namespace bastion
