#include "orchestrator/policy/tree_grower.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "orchestrator/policy/speedup_stop.h"
#include "orchestrator/prior/weighted_candidates.h"
#include "orchestrator/tree/beam.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/candidates.h"
#include "orchestrator/tree/chain.h"

namespace bastion {
namespace {

// A prior knows no horizon; beyond this a copy is hardly ever followed.
constexpr int kDraftFreeDepth = 16;

constexpr int kFewestWeighed = 32;  // Candidates of a position.

constexpr double kFittedUnderestimate = 1.5;

std::vector<TokenId> SettledBy(const GrownTree& grown, const Acceptance& acceptance) {
  std::vector<TokenId> settled;
  for (const NodeIndex node : acceptance.path) settled.push_back(grown.tree.token(node));
  settled.push_back(acceptance.next);
  return settled;
}

std::optional<TransitionPrior> PriorFor(Policy::Prior prior, const PriorInputs& sources) {
  if (prior == Policy::Prior::kNone || sources.vocabulary == 0) return std::nullopt;
  TransitionPrior::Options options;
  options.vocabulary = sources.vocabulary;
  options.request = prior != Policy::Prior::kTable;
  if (prior != Policy::Prior::kRequest) {
    options.table = sources.table;
    options.learned = sources.learned;
  }
  return std::make_optional<TransitionPrior>(options);
}

// One cycle's outcome, as the adaptive policy learns from it.
struct Outcome {
  const GrownTree& grown;
  const Acceptance& acceptance;
  const std::vector<TokenId>& settled;
  CycleYield yield;
  double plain_seconds;
  double draft_seconds;  // Of a cycle that drafted.
};

void Learn(const Outcome& outcome, SpeculationState* state) {
  const GrownTree& grown = outcome.grown;
  state->pace.Observe(outcome.yield.tokens, outcome.yield.seconds);
  if (grown.drafted && grown.is_draft_free) {
    // The draft that did not come cost its wait; what was written is not its merit.
    state->gate.ObserveDrafted(1, outcome.plain_seconds + outcome.draft_seconds,
                               outcome.plain_seconds);
  } else if (grown.drafted) {
    state->gate.ObserveDrafted(outcome.yield.tokens, outcome.yield.seconds, outcome.plain_seconds);
  } else if (grown.gate_shut) {
    state->gate.ObservePlain();
  }
  if (grown.draft_free.has_value()) {
    state->draft_free_survival.ObserveSettled(grown.draft_free->budgeted.tree,
                                              grown.draft_free->spine, outcome.settled);
  }
  if (!grown.is_draft_free && grown.spine.nodes() > 0) {
    state->survival.Observe(grown.tree, grown.spine, outcome.acceptance);
  } else if (grown.drafted || grown.gate_shut) {
    state->survival.Forget();
  }
}

}  // namespace

TreeGrower::TreeGrower(Policy policy, bool greedy, const CostModel* costs,
                       SpeculationMemory* memory)
    : policy_(std::move(policy)),
      guessing_(greedy              ? Guessing::kGreedy
                : policy_.coupled() ? Guessing::kCoupled
                                    : Guessing::kSampled),
      costs_(costs),
      shared_(&memory->at(guessing_, policy_.prior())),
      prior_(PriorFor(policy_.prior(), memory->sources())),
      state_(memory->NewSequence(guessing_, policy_.prior())) {}

void TreeGrower::Read(absl::Span<const TokenId> prompt) {
  if (!prior_.has_value()) return;
  for (const TokenId token : prompt) prior_->Append(token);
}

bool TreeGrower::WantsDraft(TokenId root, const TreeLimits& limits) {
  draft_free_.reset();
  look_.reset();
  if (limits.nodes == 0 || limits.depth == 0) return false;
  const bool adaptive = policy_.kind() == Policy::Kind::kAdaptive;
  const bool may_draft = policy_.wants_draft() && (!adaptive || state_.gate.open());
  const bool looks = adaptive && (lookout_.Looks() || !shared_->draft_choice.judges());
  if (prior_.has_value() && (!may_draft || looks)) {
    draft_free_ = GrowDraftFree(root, limits);
  }
  if (!may_draft || !adaptive) return may_draft;
  if (!draft_free_.has_value()) return true;
  const CycleYield yield = YieldOf(*draft_free_, CostAt(limits.context));
  return !shared_->draft_choice.DraftFreeWins(yield, Look(limits).worth_of_a_second());
}

int TreeGrower::CandidatesFor(const TreeLimits& limits) const {
  const int enough = std::max(1, policy_.CandidatesFor(limits.nodes));
  if (policy_.kind() != Policy::Kind::kAdaptive) return enough;
  const int fan = Look(limits).WidestFan(enough);
  // Evidence lifts candidates from beyond the fan.
  return prior_.has_value() ? std::clamp(2 * fan, std::min(kFewestWeighed, enough), enough) : fan;
}

GrownTree TreeGrower::Skip(TokenId root, const TreeLimits& limits) {
  if (draft_free_.has_value()) return FinishDraftFree(limits);
  const bool room = limits.nodes > 0 && limits.depth > 0;
  const bool gate_shut = room && policy_.wants_draft();
  BudgetReason reason = room ? BudgetReason::kGate : BudgetReason::kCap;
  if (!policy_.wants_draft()) reason = BudgetReason::kPolicy;
  GrownTree grown = Finish({DraftTree(root), reason}, DraftTree(root), limits);
  grown.gate_shut = gate_shut;
  return grown;
}

GrownTree TreeGrower::Grow(TokenId root, const Marginals& marginals, const TreeLimits& limits) {
  if (!policy_.wants_draft()) return Skip(root, limits);
  if (marginals.empty()) {
    if (prior_.has_value() && !draft_free_.has_value()) draft_free_ = GrowDraftFree(root, limits);
    GrownTree grown = draft_free_.has_value() ? FinishDraftFree(limits)
                                              : Finish({DraftTree(root), BudgetReason::kNoDraft},
                                                       DraftTree(root), limits);
    grown.reason = BudgetReason::kNoDraft;
    grown.drafted = true;
    return grown;
  }
  std::unique_ptr<Candidates> rows;
  if (Weighs()) {
    rows = std::make_unique<WeightedCandidates>(marginals, limits.depth,
                                                prior_.has_value() ? &*prior_ : nullptr,
                                                &shared_->draft_weights, MaxChildren(limits));
  } else {
    rows = std::make_unique<DraftCandidates>(marginals, limits.depth);
  }
  DraftTree spine(root);
  if (policy_.kind() == Policy::Kind::kAdaptive) {
    spine = GrowChain(root, *rows, rows->max_depth(), Look(limits).least_scores());
  }
  BudgetedTree budgeted = GrowOver(spine, *rows, limits, marginals.positions);
  GrownTree grown = Finish(std::move(budgeted), std::move(spine), limits);
  grown.drafted = true;
  if (Weighs()) grown.marginals = marginals;
  grown.draft_free = std::exchange(draft_free_, std::nullopt);
  return grown;
}

BudgetedTree TreeGrower::GrowOver(const DraftTree& spine, const Candidates& rows,
                                  const TreeLimits& limits, int horizon) const {
  switch (policy_.kind()) {
    case Policy::Kind::kBastion:
      return GrowToSpeedupStop(spine.token(0), rows, CostAt(limits.context), limits.nodes);
    case Policy::Kind::kAdaptive:
      return Look(limits).Grow(spine, rows, state_.survival);
    default:
      return GrowNamedSize(spine.token(0), rows, limits, horizon);
  }
}

BudgetedTree TreeGrower::GrowNamedSize(TokenId root, const Candidates& rows,
                                       const TreeLimits& limits, int horizon) const {
  DraftTree tree(root);
  int wanted = policy_.nodes();
  if (policy_.kind() == Policy::Kind::kBeam) {
    wanted = policy_.width() * policy_.depth();
    tree = GrowBeam(root, rows, policy_.width(), policy_.depth());
  } else if (policy_.kind() == Policy::Kind::kChain) {
    if (wanted == 0) wanted = horizon;
    tree = GrowChain(root, rows, wanted);
  } else {
    tree = GrowBestFirst(root, rows, std::min(wanted, limits.nodes));
  }
  tree.Truncate(std::min(tree.nodes(), limits.nodes));
  if (tree.nodes() == wanted) return {std::move(tree), BudgetReason::kPolicy};
  const bool capped = tree.nodes() == limits.nodes || limits.depth < horizon;
  return {std::move(tree), capped ? BudgetReason::kCap : BudgetReason::kExhausted};
}

DraftFreeTree TreeGrower::GrowDraftFree(TokenId root, const TreeLimits& limits) const {
  const PriorCandidates rows(std::min(limits.depth, kDraftFreeDepth), &*prior_,
                             &shared_->prior_weights, MaxChildren(limits));
  if (policy_.kind() != Policy::Kind::kAdaptive) {
    return {GrowOver(DraftTree(root), rows, limits, kDraftFreeDepth), DraftTree(root)};
  }
  const LookAhead& look = Look(limits);
  DraftTree spine = GrowChain(root, rows, rows.max_depth(), look.least_scores());
  return {look.Grow(spine, rows, state_.draft_free_survival), std::move(spine)};
}

GrownTree TreeGrower::Finish(BudgetedTree budgeted, DraftTree spine,
                             const TreeLimits& limits) const {
  const absl::Duration predicted = CostAt(limits.context).Verify(budgeted.tree.nodes());
  return {.tree = std::move(budgeted.tree),
          .reason = budgeted.reason,
          .context = limits.context,
          .predicted_verify = predicted,
          .spine = std::move(spine)};
}

GrownTree TreeGrower::FinishDraftFree(const TreeLimits& limits) {
  GrownTree grown = Finish(draft_free_->budgeted, draft_free_->spine, limits);
  grown.draft_free = std::exchange(draft_free_, std::nullopt);
  grown.is_draft_free = true;
  grown.gate_shut = policy_.kind() == Policy::Kind::kAdaptive && !state_.gate.open();
  if (grown.gate_shut && grown.tree.nodes() == 0) grown.reason = BudgetReason::kGate;
  return grown;
}

void TreeGrower::Observe(const GrownTree& grown, const Acceptance& acceptance,
                         absl::Duration draft_time) {
  look_.reset();
  const std::vector<TokenId> settled = SettledBy(grown, acceptance);
  const bool lesson = !grown.marginals.empty() || grown.draft_free.has_value();
  if (lesson && NextLessonCounts()) {
    if (!grown.marginals.empty()) {
      WeightedCandidates::UpdateWeights(grown.marginals, prior_.has_value() ? &*prior_ : nullptr,
                                        settled, &shared_->draft_weights);
    }
    if (grown.draft_free.has_value()) {
      PriorCandidates::UpdateWeights(*prior_, settled, &shared_->prior_weights);
    }
  }
  if (prior_.has_value()) {
    for (const TokenId token : settled) prior_->Append(token);
  }
  if (policy_.kind() != Policy::Kind::kAdaptive) return;
  const CycleCost cost = CostAt(grown.context);
  const double plain_seconds = cost.PlainSeconds();
  if (!(plain_seconds > 0)) return;
  // The verify by prediction: its noise would hit plain steps alike.
  CycleYield yield = {static_cast<double>(acceptance.committed_length()),
                      absl::ToDoubleSeconds(cost.overhead + cost.Verify(grown.tree.nodes()))};
  if (grown.drafted) {
    // The draft counts as long as it took: a late drafter is the drafter's fault. But a sequence's
    // first draft also reads the prompt; while drafts pay at large, that says nothing about the
    // next.
    if (first_draft_ && shared_->state.gate.level() > 0) {
      draft_time = std::min(draft_time, cost.draft);
    }
    first_draft_ = false;
    yield.seconds += absl::ToDoubleSeconds(draft_time);
  }
  LearnChoice(grown, yield);
  const Outcome outcome = {grown, acceptance,    settled,
                           yield, plain_seconds, absl::ToDoubleSeconds(draft_time)};
  Learn(outcome, &state_);
  Learn(outcome, &shared_->state);
}

int TreeGrower::MaxChildren(const TreeLimits& limits) const {
  constexpr int kEnough = 32;
  if (policy_.kind() == Policy::Kind::kAdaptive) return kEnough;
  return std::max(kEnough, policy_.CandidatesFor(limits.nodes));
}

bool TreeGrower::NextLessonCounts() {
  constexpr int kAtFirst = 512, kLater = 4;
  ++lessons_;
  if (shared_->lessons >= kAtFirst && lessons_ % kLater != 0) return false;
  ++shared_->lessons;
  return true;
}

void TreeGrower::LearnChoice(const GrownTree& grown, const CycleYield& yield) {
  if (grown.gate_shut) return;
  if (!grown.drafted) {
    if (!grown.is_draft_free) return;
    lookout_.Won();
    shared_->draft_choice.ObserveDraftFree();
    return;
  }
  lookout_.Lost();
  shared_->draft_choice.ObserveAsked();
  if (grown.draft_free.has_value() && !grown.is_draft_free) {
    shared_->draft_choice.ObserveDrafted(grown.draft_free->budgeted.expected_length, yield);
  }
}

CycleCost TreeGrower::CostAt(int context) const {
  return costs_->At(policy_.kind() == Policy::Kind::kBastion ? CostModel::Estimator::kPaper
                                                             : CostModel::Estimator::kMeasured,
                    context);
}

const LookAhead& TreeGrower::Look(const TreeLimits& limits) const {
  if (!look_.has_value()) {
    // Beyond the measured rows nothing is weighed.
    look_.emplace(
        CostAt(limits.context), std::min(limits.nodes, costs_->measured_rows() - 1),
        state_.pace.tokens_per_second(),
        prior_.has_value() ? kFittedUnderestimate : std::numeric_limits<double>::infinity());
  }
  return *look_;
}

CycleYield TreeGrower::YieldOf(const DraftFreeTree& tree, const CycleCost& cost) const {
  return {tree.budgeted.expected_length,
          absl::ToDoubleSeconds(cost.overhead + cost.Verify(tree.budgeted.tree.nodes()))};
}

}  // namespace bastion
