#include "orchestrator/cost/draft_cost.h"

#include <algorithm>

#include "absl/types/span.h"

namespace bastion {
namespace {

constexpr int kRowsPerSequence = 8;  // Blocks of published drafters have 8 to 16 positions.
constexpr int kMaxSequences = 256;
// Before the first draft: a drafter is a small part of its target.
constexpr double kAssumedShare = 0.25;

std::vector<CalibrationPoint> ShapeOf(const LatencyEstimator& verify) {
  std::vector<CalibrationPoint> shape;
  for (int sequences = 1; sequences <= kMaxSequences; sequences *= 2) {
    const double seconds =
        absl::ToDoubleSeconds(verify.Predict(kRowsPerSequence * sequences, /*context=*/0));
    shape.push_back({sequences, 0, kAssumedShare * seconds, 0});
  }
  return shape;
}

}  // namespace

DraftCost::DraftCost(const LatencyEstimator& verify)
    : shape_(ShapeOf(verify)), curve_(*Staircase::Make(shape_)) {}

absl::Duration DraftCost::Predict(int sequences) const {
  return sequences == 0 ? absl::ZeroDuration() : curve_.Predict(sequences, 0);
}

std::vector<double> DraftCost::Curve(int max_sequences) const {
  std::vector<double> seconds(static_cast<size_t>(max_sequences) + 1, 0.0);
  curve_.Curve(0, absl::MakeSpan(seconds).subspan(1));
  return seconds;
}

void DraftCost::Observe(int sequences, absl::Duration observed) {
  if (observed <= absl::ZeroDuration()) return;
  if (++observations_ > kScaling) {
    curve_.Observe(sequences, 0, observed);
    return;
  }
  const double ratio = absl::FDivDuration(observed, Predict(sequences));
  if (observations_ > 1 && ratio >= 1) return;
  for (CalibrationPoint& point : shape_) point.seconds *= ratio;
  curve_ = *Staircase::Make(shape_);
}

void DraftCost::ObserveFailure(int sequences, absl::Duration spent) {
  if (spent > Predict(sequences)) Observe(sequences, spent);
}

}  // namespace bastion
