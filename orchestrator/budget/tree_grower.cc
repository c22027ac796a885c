#include "orchestrator/budget/tree_grower.h"

#include <algorithm>
#include <utility>

#include "orchestrator/budget/speedup_stop.h"
#include "orchestrator/tree/beam.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/candidate_scores.h"
#include "orchestrator/tree/chain.h"

namespace bastion {
namespace {

void Learn(const GrownTree& grown, const Acceptance& acceptance, double cycle_seconds,
           double plain_seconds, SpeculationState* state) {
  const int committed = acceptance.committed_length();
  state->pace.Observe(committed, cycle_seconds);
  if (grown.drafted) {
    state->gate.ObserveDrafted(committed, cycle_seconds, plain_seconds);
  } else if (grown.reason == BudgetReason::kGate) {
    state->gate.ObservePlain();
  }
  if (grown.spine.nodes() > 0) {
    state->survival.Observe(grown.tree, grown.spine, acceptance);
  } else {
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
      memory_(memory),
      state_(memory->NewSequence(guessing_)) {}

bool TreeGrower::WantsDraft(const TreeLimits& limits) const {
  if (!policy_.wants_draft() || limits.nodes == 0 || limits.depth == 0) return false;
  return policy_.kind() != Policy::Kind::kAdaptive || state_.gate.open();
}

int TreeGrower::CandidatesFor(const TreeLimits& limits) const {
  const int enough = std::max(1, policy_.CandidatesFor(limits.nodes));
  if (policy_.kind() != Policy::Kind::kAdaptive) return enough;
  return WidestFan(TermsAt(limits.context), enough);
}

GrownTree TreeGrower::Skip(TokenId root, const TreeLimits& limits) const {
  BudgetReason reason = BudgetReason::kGate;
  if (limits.nodes == 0 || limits.depth == 0) reason = BudgetReason::kCap;
  if (!policy_.wants_draft()) reason = BudgetReason::kPolicy;
  return Finish({DraftTree(root), reason}, /*drafted=*/false, DraftTree(root), limits);
}

GrownTree TreeGrower::Grow(TokenId root, const Marginals& marginals,
                           const TreeLimits& limits) const {
  if (guessing_ != Guessing::kCoupled) return GrowOver(root, marginals, limits);
  GrownTree grown = GrowOver(root, state_.sharpness.Applied(marginals), limits);
  grown.coupled = marginals;
  return grown;
}

GrownTree TreeGrower::GrowOver(TokenId root, const Marginals& marginals,
                               const TreeLimits& limits) const {
  const CandidateScores scores = CandidateScores::Of(marginals).LimitedTo(limits.depth);
  DraftTree spine = GrowChain(root, scores, scores.positions);
  if (marginals.empty() || !policy_.wants_draft()) {
    const BudgetReason reason =
        policy_.wants_draft() ? BudgetReason::kNoDraft : BudgetReason::kPolicy;
    return Finish({DraftTree(root), reason}, /*drafted=*/true, std::move(spine), limits);
  }
  if (policy_.kind() == Policy::Kind::kBastion) {
    return Finish(GrowToSpeedupStop(root, scores, CostAt(limits.context), limits.nodes),
                  /*drafted=*/true, std::move(spine), limits);
  }
  if (policy_.kind() == Policy::Kind::kAdaptive) {
    const int max_nodes = std::min(limits.nodes, costs_->measured_rows() - 1);
    BudgetedTree budgeted = GrowLookAhead(spine, scores, TermsAt(limits.context), max_nodes);
    return Finish(std::move(budgeted), /*drafted=*/true, std::move(spine), limits);
  }
  return Finish(GrowNamedSize(root, marginals, limits), /*drafted=*/true, std::move(spine), limits);
}

void TreeGrower::Observe(const GrownTree& grown, const Acceptance& acceptance,
                         absl::Duration draft_time) {
  if (!grown.coupled.empty()) {
    state_.sharpness.Observe(grown.coupled, grown.tree, acceptance);
    memory_->at(guessing_).sharpness.Observe(grown.coupled, grown.tree, acceptance);
  }
  if (policy_.kind() != Policy::Kind::kAdaptive) return;
  const CycleCost cost = CostAt(grown.context);
  const double plain_seconds = cost.PlainSeconds();
  if (!(plain_seconds > 0)) return;
  // The draft counts as long as it took: a late drafter is the drafter's fault. But a sequence's
  // first draft also reads the prompt; while drafts pay at large, that says nothing about the next.
  absl::Duration charged = draft_time;
  if (first_draft_ && memory_->at(guessing_).gate.level() > 0)
    charged = std::min(charged, cost.draft);
  if (grown.drafted) first_draft_ = false;
  // The verify by prediction: its noise would hit plain steps alike.
  const double cycle_seconds =
      grown.drafted
          ? absl::ToDoubleSeconds(charged + cost.overhead + cost.Verify(grown.tree.nodes()))
          : plain_seconds;
  Learn(grown, acceptance, cycle_seconds, plain_seconds, &state_);
  Learn(grown, acceptance, cycle_seconds, plain_seconds, &memory_->at(guessing_));
}

CycleCost TreeGrower::CostAt(int context) const {
  return costs_->At(policy_.kind() == Policy::Kind::kBastion ? CostModel::Source::kPaper
                                                             : CostModel::Source::kMeasured,
                    context);
}

LookAheadTerms TreeGrower::TermsAt(int context) const {
  return {CostAt(context), &state_.survival, state_.pace.tokens_per_second()};
}

GrownTree TreeGrower::Finish(BudgetedTree budgeted, bool drafted, DraftTree spine,
                             const TreeLimits& limits) const {
  const absl::Duration predicted = CostAt(limits.context).Verify(budgeted.tree.nodes());
  return {std::move(budgeted.tree),
          budgeted.reason,
          drafted,
          limits.context,
          predicted,
          std::move(spine),
          {}};
}

BudgetedTree TreeGrower::GrowNamedSize(TokenId root, const Marginals& marginals,
                                       const TreeLimits& limits) const {
  const CandidateScores scores = CandidateScores::Of(marginals).LimitedTo(limits.depth);
  DraftTree tree(root);
  int wanted = policy_.nodes();
  if (policy_.kind() == Policy::Kind::kBeam) {
    wanted = policy_.width() * policy_.depth();
    tree = GrowBeam(root, scores, policy_.width(), policy_.depth());
  } else if (policy_.kind() == Policy::Kind::kChain) {
    if (wanted == 0) wanted = marginals.positions;
    tree = GrowChain(root, scores, wanted);
  } else {
    tree = GrowBestFirst(root, scores, std::min(wanted, limits.nodes));
  }
  tree.Truncate(std::min(tree.nodes(), limits.nodes));
  if (tree.nodes() == wanted) return {std::move(tree), BudgetReason::kPolicy};
  const bool capped = tree.nodes() == limits.nodes || limits.depth < marginals.positions;
  return {std::move(tree), capped ? BudgetReason::kCap : BudgetReason::kExhausted};
}

}  // namespace bastion
