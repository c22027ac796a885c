#include "orchestrator/policy/adaptive_request.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "orchestrator/belief/calibrated_candidates.h"
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

ValueHistogram AdaptiveRequest::Pool::Histogram() const {
  ValueHistogram histogram;
  for (const double value : values) histogram.Add(value);
  return histogram;
}

void AdaptiveRequest::OnBegin(absl::Span<const double> min_values) {
  min_values_ = min_values;
  draft_.reset();
  free_.reset();
  ++cycles_since_draft_;
  candidates().shared().draft_calibration.Refresh();
  candidates().shared().prior_calibration.Refresh();
  const bool tries = unused_free_ < kMaxUnused || unused_free_ % kRetryInterval == 0;
  if (candidates().has_prior() && has_room() && tries) GrowFree();
}

void AdaptiveRequest::GrowFree() {
  free_ = Grow(candidates().FromPrior(limits().depth, kMaxChildren),
               candidates().shared().prior_calibration, free_trust_);
  free_length_ = std::accumulate(free_->values.begin(), free_->values.end(), 1.0);
}

AdaptiveRequest::Pool AdaptiveRequest::Grow(std::unique_ptr<Candidates> candidates,
                                            const AcceptanceCalibration& calibration,
                                            const Trust& trust) const {
  Pool pool = {std::move(candidates), DraftTree(root()), {}, BudgetReason::kConfidence};
  CalibratedCandidates calibrated(*pool.candidates, calibration, trust, LowestValue());
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

double AdaptiveRequest::LowestValue() const {
  return *std::min_element(min_values_.begin(), min_values_.end()) / weight();
}

int AdaptiveRequest::WantedCandidates() {
  const int useful = UsefulChildren(min_values_, weight());
  const int enough = std::max(1, policy().CandidatesFor(limits().nodes));
  return std::min(enough,
                  candidates().has_prior() ? std::max(2 * useful, kMinPriorCandidates) : useful);
}

std::optional<DraftRound> AdaptiveRequest::PlanFurtherRound() {
  if (!draft_.has_value() || rounds() >= kDefaultRounds) return std::nullopt;
  const DraftTree& tree = draft_->tree;
  const ChildProfile::Values& children = candidates().shared().child_profile.values();
  const double lowest = LowestValue();
  DraftRound round = {.candidates = WantedCandidates(), .paths = {}};
  round.proposal = {
      .without = draft_->Histogram(), .with = draft_->Histogram(), .weight = weight()};
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    const double value = draft_->values[node - 1];
    if (value * children[0] < lowest || tree.depth(node) >= limits().depth) continue;
    if (draft().Find(tree, node).known()) continue;
    round.paths.push_back(PathOf(tree, node));
    // The block of the node: its children, those of its best child, and so on.
    const int positions = std::min(draft().positions(), limits().depth - tree.depth(node));
    double above = value;
    for (int position = 0; position < positions; ++position, above *= children[0]) {
      for (const double child : children) {
        if (above * child >= lowest) round.proposal.with.Add(above * child);
      }
    }
  }
  if (round.paths.empty()) return std::nullopt;
  return round;
}

void AdaptiveRequest::ObserveChildren(ChildProfile* profile) const {
  const DraftTree& tree = draft_->tree;
  std::vector<ChildProfile::Values> values(tree.rows(), ChildProfile::Values{});
  std::vector<int> counts(tree.rows(), 0);
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    const NodeIndex parent = tree.parent(node);
    if (counts[parent] == ChildProfile::kChildren) continue;
    const double above = parent == 0 ? 1 : draft_->values[parent - 1];
    values[parent][counts[parent]++] = draft_->values[node - 1] / above;
  }
  for (NodeIndex node = 0; node < tree.rows(); ++node) {
    // The children of an unlikely node are left out of the tree.
    if (counts[node] > 0 && draft().Find(tree, node).known()) profile->Observe(values[node]);
  }
}

std::optional<DraftRound> AdaptiveRequest::PlanRound() {
  if (rounds() > 0) return PlanFurtherRound();
  if (empty_drafts_ > 0 && cycles_since_draft_ <= 1 << std::min(empty_drafts_, kMaxPauseExponent)) {
    return std::nullopt;
  }
  return DraftRound{
      .candidates = WantedCandidates(),
      .proposal = {.without = free_.has_value() ? free_->Histogram() : ValueHistogram(),
                   .with = belief_.Expect(candidates().shared().belief, free_length_),
                   .cycles_since_draft = cycles_since_draft_,
                   .weight = weight()}};
}

void AdaptiveRequest::OnDraft() {
  cycles_since_draft_ = 0;
  empty_drafts_ = draft().empty() ? empty_drafts_ + 1 : 0;
  if (!draft().empty()) {
    draft_ = Grow(candidates().FromDraft(draft(), limits().depth, kMaxChildren),
                  candidates().shared().draft_calibration, draft_trust_);
  } else if (candidates().has_prior() && !free_.has_value()) {
    GrowFree();
  }
}

TreeProposal AdaptiveRequest::ProposeTree() {
  if (!has_room()) return {.weight = weight(), .end = limits().reason};
  const std::optional<Pool>& pool = proposed();
  // Without a pool, the planner decided against a draft.
  if (!pool.has_value()) return {.weight = weight(), .end = BudgetReason::kCost};
  return {.values = pool->values, .weight = weight(), .end = pool->end};
}

GrownTree AdaptiveRequest::FinishTree(int nodes, BudgetReason reason) {
  if (draft_.has_value() && draft().expands_nodes()) {
    ObserveChildren(&candidates().shared().child_profile);
  }
  std::optional<Pool>& pool = proposed();
  GrownTree grown = {pool.has_value() ? std::move(pool->tree) : DraftTree(root()), reason};
  grown.tree.Truncate(std::min(nodes, grown.tree.nodes()));
  return grown;
}

Candidates* AdaptiveRequest::uncalibrated() {
  return proposed().has_value() ? proposed()->candidates.get() : nullptr;
}

void AdaptiveRequest::Learn(const GrownTree& grown, absl::Span<const TokenId> chosen) {
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
  candidates().ObserveChoices(draft(), free_.has_value(), chosen);
}

}  // namespace bastion
