#include "orchestrator/cost/draft_cost.h"

#include <algorithm>

#include "absl/types/span.h"

namespace bastion {
namespace {

constexpr int kMaxSequences = 256;
// Before the first draft: a drafter is a small part of its target.
constexpr double kAssumedShare = 0.25;
// Before the first excess tokens: one takes this share of the time that a row takes in the target,
// because a drafter has few layers. Counts as much as this many observed tokens.
constexpr double kAssumedTokenShare = 0.05;
constexpr double kAssumedTokens = 16;
constexpr double kKept = 0.9;  // The part of the sums over excess tokens that a call keeps.

std::vector<ProfilePoint> ShapeOf(const LatencyEstimator& verify, int rows) {
  std::vector<ProfilePoint> shape;
  for (int sequences = 1; sequences <= kMaxSequences; sequences *= 2) {
    const double seconds = absl::ToDoubleSeconds(verify.Predict(rows * sequences, /*context=*/0));
    shape.push_back({sequences, 0, kAssumedShare * seconds, 0});
  }
  return shape;
}

}  // namespace

DraftCost::DraftCost(const LatencyEstimator& verify, int rows)
    : shape_(ShapeOf(verify, rows)), curve_(*Staircase::Make(shape_)) {
  // The call with most rows shows best what a row costs.
  const double row_seconds = shape_.back().seconds / (rows * shape_.back().rows);
  catch_up_tokens_ = kAssumedTokens;
  catch_up_seconds_ = kAssumedTokens * kAssumedTokenShare / kAssumedShare * row_seconds;
}

absl::Duration DraftCost::Predict(int sequences) const {
  return sequences == 0 ? absl::ZeroDuration() : curve_.Predict(sequences, 0);
}

std::vector<double> DraftCost::Curve(int max_sequences) const {
  std::vector<double> seconds(static_cast<size_t>(max_sequences) + 1, 0.0);
  curve_.Curve(0, absl::MakeSpan(seconds).subspan(1));
  return seconds;
}

absl::Duration DraftCost::CatchUpTime(const DraftCall& call) const {
  const absl::Duration usual = Predict(call.sequences);
  // One late reply must not change much.
  const absl::Duration longest = 4 * (usual + absl::Seconds(CatchUp(call.excess_tokens)));
  const DraftTrace& trace = call.trace;
  if (trace.drafts == 0) return std::min(call.spent, longest) - usual;
  const double share =
      static_cast<double>(call.excess_tokens) / std::max(call.excess_tokens, trace.context_tokens);
  return std::clamp(trace.features + share * trace.context, absl::ZeroDuration(),
                    std::min(call.spent, longest));
}

void DraftCost::Observe(const DraftCall& call) {
  absl::Duration spent = call.spent;
  if (spent <= absl::ZeroDuration()) return;
  if (call.excess_tokens > 0) {
    // The drafter put the excess tokens off, or it had them in its cache. Such a call does not show
    // what they cost, and may not have made a draft.
    const int usual_tokens = kUsualTokens * call.sequences;
    if (call.trace.drafts > 0 && call.trace.context_tokens <= usual_tokens) return;
    const absl::Duration catch_up = CatchUpTime(call);
    catch_up_seconds_ = kKept * catch_up_seconds_ + absl::ToDoubleSeconds(catch_up);
    catch_up_tokens_ = kKept * catch_up_tokens_ + call.excess_tokens;
    if (call.trace.drafts > 0) spent -= catch_up;
    // Such a call only shows that drafts are not more expensive.
    if (spent <= absl::ZeroDuration() || spent >= Predict(call.sequences)) return;
  }
  if (++observations_ > kScaling) {
    curve_.Observe(call.sequences, 0, spent);
    return;
  }
  const double ratio = absl::FDivDuration(spent, Predict(call.sequences));
  if (observations_ > 1 && ratio >= 1) return;
  for (ProfilePoint& point : shape_) point.seconds *= ratio;
  curve_ = *Staircase::Make(shape_);
}

void DraftCost::ObserveFailure(int sequences, absl::Duration spent) {
  if (spent > Predict(sequences)) Observe({sequences, spent});
}

}  // namespace bastion
