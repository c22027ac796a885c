#include "orchestrator/policy/adaptive_policy.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "orchestrator/policy/calibrated_candidates.h"
#include "orchestrator/tree/best_first.h"

namespace bastion {
namespace {

constexpr int kMaxChildren = 32;
// With a prior, request at least this many candidates per position, because gains can move
// candidates up from ranks beyond the useful children.
constexpr int kMinPriorCandidates = 32;

// The longest pause after empty drafts is 2^6 cycles.
constexpr int kMaxPauseExponent = 6;

// The number of children of one node that can pay. The least probable of w siblings is accepted
// with probability 1/w at most. The bound assumes 2/w, in case the drafter underestimates.
int UsefulChildren(absl::Span<const double> min_values, double weight) {
  const size_t last = min_values.size() - 1;
  int children = 1;
  while (children < kMaxUsefulCandidates &&
         2.0 * weight / (children + 1) >= min_values[std::min<size_t>(children, last)]) {
    ++children;
  }
  return children;
}

}  // namespace

ValueHistogram AdaptivePolicy::Pool::Histogram() const {
  ValueHistogram histogram;
  for (const double value : values) histogram.Add(value);
  return histogram;
}

void AdaptivePolicy::OnBegin(absl::Span<const double> min_values) {
  min_values_ = min_values;
  draft_.reset();
  free_.reset();
  ++cycles_since_draft_;
  candidates().shared().draft_calibration.Refresh();
  candidates().shared().prior_calibration.Refresh();
  const bool tries = unused_free_ < kMaxUnused || unused_free_ % kRetryInterval == 0;
  if (candidates().has_prior() && has_room() && tries) GrowFree();
}

void AdaptivePolicy::GrowFree() {
  free_ = Grow(candidates().FromPrior(limits().depth, kMaxChildren),
               candidates().shared().prior_calibration, free_trust_);
  free_length_ = std::accumulate(free_->values.begin(), free_->values.end(), 1.0);
}

AdaptivePolicy::Pool AdaptivePolicy::Grow(std::unique_ptr<Candidates> candidates,
                                          const AcceptanceCalibration& calibration,
                                          const Trust& trust) const {
  Pool pool = {std::move(candidates), DraftTree(root()), {}, BudgetReason::kConfidence};
  // A weighted value pays if it exceeds a minimum.
  const double lowest = *std::min_element(min_values_.begin(), min_values_.end()) / weight();
  const CalibratedCandidates calibrated(*pool.candidates, calibration, trust, lowest);
  BestFirst best_first(calibrated, std::min(limits().nodes, 32), &pool.tree);
  const int last = static_cast<int>(min_values_.size()) - 1;
  while (!best_first.exhausted() &&
         weight() * best_first.PeekScore() >= min_values_[std::min(pool.tree.nodes(), last)]) {
    if (pool.tree.nodes() == limits().nodes) {
      pool.end = limits().reason;
      break;
    }
    pool.values.push_back(best_first.AddNext());
  }
  return pool;
}

std::optional<DraftRound> AdaptivePolicy::PlanRound() {
  if (empty_drafts_ > 0 && cycles_since_draft_ <= 1 << std::min(empty_drafts_, kMaxPauseExponent)) {
    return std::nullopt;
  }
  const int useful = UsefulChildren(min_values_, weight());
  const int enough = std::max(1, policy().CandidatesFor(limits().nodes));
  const int wanted = candidates().has_prior() ? std::max(2 * useful, kMinPriorCandidates) : useful;
  return DraftRound{.candidates = std::min(wanted, enough),
                    .offer = {.without = free_.has_value() ? free_->Histogram() : ValueHistogram(),
                              .with = belief_.Expect(candidates().shared().belief, free_length_),
                              .cycles_since_draft = cycles_since_draft_,
                              .weight = weight()}};
}

void AdaptivePolicy::OnDraft() {
  cycles_since_draft_ = 0;
  empty_drafts_ = marginals().empty() ? empty_drafts_ + 1 : 0;
  if (!marginals().empty()) {
    draft_ = Grow(candidates().FromDraft(marginals(), limits().depth, kMaxChildren),
                  candidates().shared().draft_calibration, draft_trust_);
  } else if (candidates().has_prior() && !free_.has_value()) {
    GrowFree();
  }
}

TreeOffer AdaptivePolicy::OfferTree() {
  if (!has_room()) return {.weight = weight(), .end = limits().reason};
  const std::optional<Pool>& pool = offered();
  // Without a pool, the planner decided against a draft.
  if (!pool.has_value()) return {.weight = weight(), .end = BudgetReason::kCost};
  return {.values = pool->values, .weight = weight(), .end = pool->end};
}

GrownTree AdaptivePolicy::FinishTree(int nodes, BudgetReason reason) {
  std::optional<Pool>& pool = offered();
  GrownTree grown = {pool.has_value() ? std::move(pool->tree) : DraftTree(root()), reason};
  grown.tree.Truncate(std::min(nodes, grown.tree.nodes()));
  return grown;
}

const Candidates* AdaptivePolicy::uncalibrated() const {
  return offered().has_value() ? offered()->candidates.get() : nullptr;
}

void AdaptivePolicy::Learn(const GrownTree& grown, absl::Span<const TokenId> chosen) {
  SharedSpeculation& shared = candidates().shared();
  if (draft_.has_value()) {
    ObserveChoices(*draft_->candidates, root(), chosen, &shared.draft_calibration, &draft_trust_);
    shared.draft_calibration.EndCycle();
    belief_.Observe(free_length_, draft_->Histogram(), &shared.belief);
  } else {
    belief_.ObserveNoDraft();
  }
  if (free_.has_value()) {
    ObserveChoices(*free_->candidates, root(), chosen, &shared.prior_calibration, &free_trust_);
    shared.prior_calibration.EndCycle();
  }
  const bool used_free = !draft_.has_value() && grown.tree.nodes() > 0;
  if (has_room()) unused_free_ = used_free ? 0 : unused_free_ + 1;
  candidates().ObserveChoices(draft_.has_value() ? &marginals() : nullptr, free_.has_value(),
                              chosen);
}

}  // namespace bastion
