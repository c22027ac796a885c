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

// Maximum depth of draft-free trees. The prior has no limit, but text rarely repeats longer runs.
constexpr int kDraftFreeDepth = 16;

// With weighted candidates, request at least this many candidates per position.
constexpr int kMinWeightedCandidates = 32;

// The `underestimate` of LookAhead for weighted candidates.
constexpr double kFittedUnderestimate = 1.5;

// The tokens that the target chose after the root.
std::vector<TokenId> ChosenTokens(const GrownTree& grown, const Acceptance& acceptance) {
  std::vector<TokenId> chosen;
  chosen.reserve(acceptance.path.size() + 1);
  for (const NodeIndex node : acceptance.path) chosen.push_back(grown.tree.token(node));
  chosen.push_back(acceptance.next);
  return chosen;
}

std::optional<TransitionPrior> PriorFor(Policy::Prior prior, const PriorInputs& inputs) {
  if (prior == Policy::Prior::kNone || inputs.vocabulary == 0) return std::nullopt;
  TransitionPrior::Options options;
  options.vocabulary = inputs.vocabulary;
  options.request = prior != Policy::Prior::kTable;
  if (prior != Policy::Prior::kRequest) {
    options.table = inputs.table;
    options.learned = inputs.learned;
  }
  return std::make_optional<TransitionPrior>(options);
}

// The outcome of one cycle, from which the adaptive policy learns.
struct Outcome {
  const GrownTree& grown;
  const Acceptance& acceptance;
  const std::vector<TokenId>& chosen;
  CycleYield yield;
  double plain_seconds;  // A plain decode step, predicted.
  double draft_seconds;  // Time that the cycle waited for its draft.
};

void UpdateState(const Outcome& outcome, SpeculationState* state) {
  const GrownTree& grown = outcome.grown;
  state->pace.Observe(outcome.yield.tokens, outcome.yield.seconds);
  if (grown.drafted && grown.is_draft_free) {
    // The draft was empty: it cost its waiting time and gets no credit for the accepted tokens.
    state->gate.ObserveDrafted(1, outcome.plain_seconds + outcome.draft_seconds,
                               outcome.plain_seconds);
  } else if (grown.drafted) {
    state->gate.ObserveDrafted(outcome.yield.tokens, outcome.yield.seconds, outcome.plain_seconds);
  } else if (grown.gate_closed) {
    state->gate.ObservePlain();
  }
  if (grown.draft_free.has_value()) {
    state->draft_free_survival.ObserveUnverified(grown.draft_free->budgeted.tree,
                                                 grown.draft_free->spine, outcome.chosen);
  }
  if (!grown.is_draft_free && grown.spine.nodes() > 0) {
    state->survival.Observe(grown.tree, grown.spine, outcome.acceptance);
  } else if (grown.drafted || grown.gate_closed) {
    state->survival.ObserveNoDraft();
  }
}

}  // namespace

TreeGrower::TreeGrower(Policy policy, bool greedy, const CostModel* costs,
                       SpeculationMemory* memory)
    : policy_(std::move(policy)),
      draft_mode_(greedy              ? DraftMode::kGreedy
                  : policy_.coupled() ? DraftMode::kCoupled
                                      : DraftMode::kSampled),
      costs_(costs),
      shared_(&memory->at(draft_mode_, policy_.prior())),
      prior_(PriorFor(policy_.prior(), memory->inputs())),
      state_(memory->NewSequence(draft_mode_, policy_.prior())) {}

void TreeGrower::ObservePrompt(absl::Span<const TokenId> prompt) {
  if (!prior_.has_value()) return;
  for (const TokenId token : prompt) prior_->Append(token);
}

bool TreeGrower::DecideDraft(TokenId root, const TreeLimits& limits) {
  draft_free_.reset();
  look_.reset();
  if (limits.nodes == 0 || limits.depth == 0) return false;
  const bool adaptive = policy_.kind() == Policy::Kind::kAdaptive;
  const bool may_draft = policy_.wants_draft() && (!adaptive || state_.gate.open());
  const bool compares =
      adaptive && (backoff_.ShouldTry() || !shared_->draft_choice.has_enough_cycles());
  if (prior_.has_value() && (!may_draft || compares)) {
    draft_free_ = GrowDraftFree(root, limits);
  }
  if (!may_draft || !adaptive) return may_draft;
  if (!draft_free_.has_value()) return true;
  const CycleYield yield = YieldOf(*draft_free_, CostAt(limits.context));
  return !shared_->draft_choice.DraftFreeWins(yield, LookAheadFor(limits).price_of_second());
}

int TreeGrower::CandidatesFor(const TreeLimits& limits) const {
  const int enough = std::max(1, policy_.CandidatesFor(limits.nodes));
  if (policy_.kind() != Policy::Kind::kAdaptive) return enough;
  const int useful = LookAheadFor(limits).MaxUsefulChildren(enough);
  // Gains can move candidates up from ranks beyond the useful children.
  return prior_.has_value()
             ? std::clamp(2 * useful, std::min(kMinWeightedCandidates, enough), enough)
             : useful;
}

GrownTree TreeGrower::GrowWithoutDraft(TokenId root, const TreeLimits& limits) {
  if (draft_free_.has_value()) return TakeDraftFree(limits);
  const bool room = limits.nodes > 0 && limits.depth > 0;
  const bool gate_closed = room && policy_.wants_draft();
  BudgetReason reason = room ? BudgetReason::kGate : BudgetReason::kCap;
  if (!policy_.wants_draft()) reason = BudgetReason::kPolicy;
  GrownTree grown = MakeGrownTree({DraftTree(root), reason}, DraftTree(root), limits);
  grown.gate_closed = gate_closed;
  return grown;
}

GrownTree TreeGrower::Grow(TokenId root, const Marginals& marginals, const TreeLimits& limits) {
  if (!policy_.wants_draft()) return GrowWithoutDraft(root, limits);
  if (marginals.empty()) {
    if (prior_.has_value() && !draft_free_.has_value()) draft_free_ = GrowDraftFree(root, limits);
    GrownTree grown =
        draft_free_.has_value()
            ? TakeDraftFree(limits)
            : MakeGrownTree({DraftTree(root), BudgetReason::kNoDraft}, DraftTree(root), limits);
    grown.reason = BudgetReason::kNoDraft;
    grown.drafted = true;
    return grown;
  }
  std::unique_ptr<Candidates> candidates;
  if (UsesWeights()) {
    candidates = std::make_unique<WeightedCandidates>(marginals, limits.depth,
                                                      prior_.has_value() ? &*prior_ : nullptr,
                                                      &shared_->draft_weights, MaxChildren(limits));
  } else {
    candidates = std::make_unique<DraftCandidates>(marginals, limits.depth);
  }
  DraftTree spine(root);
  if (policy_.kind() == Policy::Kind::kAdaptive) {
    spine =
        GrowChain(root, *candidates, candidates->max_depth(), LookAheadFor(limits).min_scores());
  }
  BudgetedTree budgeted = GrowByPolicy(spine, *candidates, limits, marginals.positions);
  GrownTree grown = MakeGrownTree(std::move(budgeted), std::move(spine), limits);
  grown.drafted = true;
  if (UsesWeights()) grown.marginals = marginals;
  grown.draft_free = std::exchange(draft_free_, std::nullopt);
  return grown;
}

BudgetedTree TreeGrower::GrowByPolicy(const DraftTree& spine, const Candidates& candidates,
                                      const TreeLimits& limits, int horizon) const {
  switch (policy_.kind()) {
    case Policy::Kind::kBastion:
      return GrowToSpeedupStop(spine.token(0), candidates, CostAt(limits.context), limits.nodes);
    case Policy::Kind::kAdaptive:
      return LookAheadFor(limits).Grow(spine, candidates, state_.survival);
    default:
      return GrowNamedSize(spine.token(0), candidates, limits, horizon);
  }
}

BudgetedTree TreeGrower::GrowNamedSize(TokenId root, const Candidates& candidates,
                                       const TreeLimits& limits, int horizon) const {
  DraftTree tree(root);
  int wanted = policy_.nodes();
  if (policy_.kind() == Policy::Kind::kBeam) {
    wanted = policy_.width() * policy_.depth();
    tree = GrowBeam(root, candidates, policy_.width(), policy_.depth());
  } else if (policy_.kind() == Policy::Kind::kChain) {
    if (wanted == 0) wanted = horizon;
    tree = GrowChain(root, candidates, wanted);
  } else {
    tree = GrowBestFirst(root, candidates, std::min(wanted, limits.nodes));
  }
  tree.Truncate(std::min(tree.nodes(), limits.nodes));
  if (tree.nodes() == wanted) return {std::move(tree), BudgetReason::kPolicy};
  const bool capped = tree.nodes() == limits.nodes || limits.depth < horizon;
  return {std::move(tree), capped ? BudgetReason::kCap : BudgetReason::kExhausted};
}

DraftFreeTree TreeGrower::GrowDraftFree(TokenId root, const TreeLimits& limits) const {
  const PriorCandidates candidates(std::min(limits.depth, kDraftFreeDepth), &*prior_,
                                   &shared_->prior_weights, MaxChildren(limits));
  if (policy_.kind() != Policy::Kind::kAdaptive) {
    return {GrowByPolicy(DraftTree(root), candidates, limits, kDraftFreeDepth), DraftTree(root)};
  }
  const LookAhead& look = LookAheadFor(limits);
  DraftTree spine = GrowChain(root, candidates, candidates.max_depth(), look.min_scores());
  return {look.Grow(spine, candidates, state_.draft_free_survival), std::move(spine)};
}

GrownTree TreeGrower::MakeGrownTree(BudgetedTree budgeted, DraftTree spine,
                                    const TreeLimits& limits) const {
  const absl::Duration predicted = CostAt(limits.context).Verify(budgeted.tree.nodes());
  return {.tree = std::move(budgeted.tree),
          .reason = budgeted.reason,
          .context = limits.context,
          .predicted_verify = predicted,
          .spine = std::move(spine)};
}

GrownTree TreeGrower::TakeDraftFree(const TreeLimits& limits) {
  GrownTree grown = MakeGrownTree(draft_free_->budgeted, draft_free_->spine, limits);
  grown.draft_free = std::exchange(draft_free_, std::nullopt);
  grown.is_draft_free = true;
  grown.gate_closed = policy_.kind() == Policy::Kind::kAdaptive && !state_.gate.open();
  if (grown.gate_closed && grown.tree.nodes() == 0) grown.reason = BudgetReason::kGate;
  return grown;
}

void TreeGrower::Observe(const GrownTree& grown, const Acceptance& acceptance,
                         absl::Duration draft_time) {
  look_.reset();
  const std::vector<TokenId> chosen = ChosenTokens(grown, acceptance);
  const bool weighted = !grown.marginals.empty() || grown.draft_free.has_value();
  if (weighted && ShouldUpdateWeights()) {
    if (!grown.marginals.empty()) {
      WeightedCandidates::UpdateWeights(grown.marginals, prior_.has_value() ? &*prior_ : nullptr,
                                        chosen, &shared_->draft_weights);
    }
    if (grown.draft_free.has_value()) {
      PriorCandidates::UpdateWeights(*prior_, chosen, &shared_->prior_weights);
    }
  }
  if (prior_.has_value()) {
    for (const TokenId token : chosen) prior_->Append(token);
  }
  if (policy_.kind() != Policy::Kind::kAdaptive) return;
  const CycleCost cost = CostAt(grown.context);
  const double plain_seconds = cost.PlainSeconds();
  if (!(plain_seconds > 0)) return;
  // Uses the predicted verify time, because noise in the measured time would also affect a plain
  // step.
  CycleYield yield = {static_cast<double>(acceptance.committed_length()),
                      absl::ToDoubleSeconds(cost.overhead + cost.Verify(grown.tree.nodes()))};
  if (grown.drafted) {
    // Uses the measured draft time, because a late drafter should be charged for it. But the first
    // draft of a sequence also processes the prompt. If drafts are worth their cost for other
    // sequences, that extra time says nothing about the next draft.
    if (first_draft_ && shared_->state.gate.level() > 0) {
      draft_time = std::min(draft_time, cost.draft);
    }
    first_draft_ = false;
    yield.seconds += absl::ToDoubleSeconds(draft_time);
  }
  ObserveChoice(grown, yield);
  const Outcome outcome = {grown, acceptance,    chosen,
                           yield, plain_seconds, absl::ToDoubleSeconds(draft_time)};
  UpdateState(outcome, &state_);
  UpdateState(outcome, &shared_->state);
}

int TreeGrower::MaxChildren(const TreeLimits& limits) const {
  constexpr int kEnough = 32;
  if (policy_.kind() == Policy::Kind::kAdaptive) return kEnough;
  return std::max(kEnough, policy_.CandidatesFor(limits.nodes));
}

bool TreeGrower::ShouldUpdateWeights() {
  constexpr int kInitialUpdates = 512, kLaterInterval = 4;
  ++update_chances_;
  if (shared_->weight_updates >= kInitialUpdates && update_chances_ % kLaterInterval != 0) {
    return false;
  }
  ++shared_->weight_updates;
  return true;
}

void TreeGrower::ObserveChoice(const GrownTree& grown, const CycleYield& yield) {
  if (grown.gate_closed) return;
  if (!grown.drafted) {
    if (!grown.is_draft_free) return;
    backoff_.RecordWin();
    shared_->draft_choice.ObserveDraftFree();
    return;
  }
  backoff_.RecordLoss();
  shared_->draft_choice.ObserveDraftRequest();
  if (grown.draft_free.has_value() && !grown.is_draft_free) {
    shared_->draft_choice.ObserveDrafted(grown.draft_free->budgeted.expected_length, yield);
  }
}

CycleCost TreeGrower::CostAt(int context) const {
  return costs_->At(policy_.kind() == Policy::Kind::kBastion ? CostModel::Estimator::kPaper
                                                             : CostModel::Estimator::kMeasured,
                    context);
}

const LookAhead& TreeGrower::LookAheadFor(const TreeLimits& limits) const {
  if (!look_.has_value()) {
    // Costs beyond the measured rows are extrapolated, so larger trees are not considered.
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
