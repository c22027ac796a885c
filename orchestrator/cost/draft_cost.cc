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

DraftCost::CatchUpPart DraftCost::TracedCatchUp(const DraftCall& call) {
  const DraftTrace& trace = call.trace;
  // A sequence with excess tokens has as many usual ones as possible. Those of drafts that were
  // made ahead had been processed before.
  const int usual_tokens = std::max(call.usual_tokens, kUsualTokens);
  const double usual =
      usual_tokens * static_cast<double>(trace.drafts - trace.ahead) / trace.drafts;
  const double tokens = std::clamp(trace.context_tokens - usual, 0.0, 1.0 * call.excess_tokens);
  const double share = tokens / std::max(1, trace.context_tokens);
  return {tokens, std::max(absl::ZeroDuration(), trace.features + share * trace.context)};
}

void DraftCost::ObserveCatchUp(const CatchUpPart& part) {
  catch_up_seconds_ = kKept * catch_up_seconds_ + absl::ToDoubleSeconds(part.spent);
  catch_up_tokens_ = kKept * catch_up_tokens_ + part.tokens;
}

void DraftCost::Observe(const DraftCall& call) {
  if (call.spent <= absl::ZeroDuration()) return;
  if (call.excess_tokens == 0) return ObserveDraft(call.sequences, call.spent);
  const absl::Duration usual = Predict(call.sequences);
  // One late reply must not change much.
  const absl::Duration longest = 4 * (usual + absl::Seconds(CatchUp(call.excess_tokens)));
  const absl::Duration cut = std::min(call.spent, longest);
  if (call.trace.drafts == 0) {
    ObserveCatchUp({1.0 * call.excess_tokens, cut - usual});
    // Such a call only shows that drafts are not more expensive.
    if (call.spent < usual) ObserveDraft(call.sequences, call.spent);
    return;
  }
  const CatchUpPart traced = TracedCatchUp(call);
  // The drafter put the excess tokens off, or it had them in its cache. Such a call does not show
  // what they cost, and may not have made a draft.
  if (traced.tokens == 0) return;
  const absl::Duration most = traced.tokens / call.trace.context_tokens * cut;
  ObserveCatchUp({traced.tokens, std::min(traced.spent, most)});
  // Among many requests, one has nearly always just begun, so nearly every call has excess tokens.
  // It shows what the draft cost, unless the drafter measured only the context.
  const absl::Duration draft = call.spent - traced.spent;
  const bool measured = call.trace.forward > absl::ZeroDuration();
  if (draft > absl::ZeroDuration() && (measured || draft < usual)) {
    ObserveDraft(call.sequences, draft);
  }
}

void DraftCost::ObserveDraft(int sequences, absl::Duration spent) {
  if (++observations_ > kScaling) {
    curve_.Observe(sequences, 0, spent);
    return;
  }
  const double ratio = absl::FDivDuration(spent, Predict(sequences));
  if (observations_ > 1 && ratio >= 1) return;
  for (ProfilePoint& point : shape_) point.seconds *= ratio;
  curve_ = *Staircase::Make(shape_);
}

void DraftCost::ObserveFailure(int sequences, absl::Duration spent) {
  if (spent > Predict(sequences)) Observe({sequences, spent});
}

}  // namespace bastion
