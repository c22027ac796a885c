#include "orchestrator/cycle/draft_rounds.h"

#include <algorithm>
#include <utility>

namespace bastion {
namespace {

constexpr double kLaterAlpha = 0.1;  // Step size of the expected time of further rounds.
// Fewest candidates that a drafter with pair scores is asked for: as many as published selectors
// were trained for. The best candidate after a token need not be among the most probable few.
constexpr int kPairCandidates = 16;

bool HasPrediction(const Draft& draft) {
  return std::any_of(draft.marginals.begin(), draft.marginals.end(),
                     [](const Marginals& marginals) { return !marginals.empty(); });
}

}  // namespace

DraftOutcome DraftRounds::Run(absl::Span<GrowingTree> growing, ForestPlanner& planner,
                              StopWatch& watch) {
  DraftOutcome outcome;
  absl::Duration later;  // Spent in further rounds.
  for (;;) {
    const Drafting drafting = Choose(growing, planner, &outcome.planned);
    if (drafting.empty()) break;
    outcome.choosing += watch.Lap();
    later += Expand(drafting, watch, &outcome);
  }
  if (outcome.planned > 0) {
    later_seconds_ +=
        kLaterAlpha * (absl::ToDoubleSeconds(later) / outcome.planned - later_seconds_);
  }
  return outcome;
}

DraftProposal DraftRounds::ProposalOf(const GrowingTree& one) const {
  DraftProposal proposal = one.round->proposal;
  const DecodeSequence& sequence = *one.sequence;
  proposal.first = sequence.awaits_first_draft();
  proposal.catch_up_seconds =
      costs_->draft().CatchUp(DraftCost::ExcessTokens(sequence.undrafted_tokens()));
  proposal.answer_tokens = sequence.request().max_tokens;
  proposal.tokens_left = proposal.answer_tokens - static_cast<int>(sequence.output().size());
  proposal.prompt_seconds = costs_->draft().CatchUp(
      DraftCost::ExcessTokens(static_cast<int>(sequence.request().prompt.size())));
  proposal.later_seconds = later_seconds_;
  proposal.mask_seconds = sequence.mask_seconds();
  return proposal;
}

DraftRounds::Drafting DraftRounds::Choose(absl::Span<GrowingTree> growing, ForestPlanner& planner,
                                          int* planned) const {
  Drafting drafting, first, further;
  std::vector<DraftProposal> proposals;
  std::vector<RoundProposal> round_proposals;
  proposals.reserve(growing.size());
  for (GrowingTree& one : growing) {
    if (one.declined) continue;
    one.round = one.sequence->policy().NextRound();
    if (one.round == nullptr) continue;
    if (one.round->required) {
      drafting.push_back(&one);
    } else if (one.round->further) {
      further.push_back(&one);
      const DraftProposal& proposal = one.round->proposal;
      round_proposals.push_back({proposal.without, proposal.with,
                                 static_cast<int>(one.round->paths.size()), proposal.weight,
                                 one.sequence->mask_seconds()});
    } else {
      first.push_back(&one);
      proposals.push_back(ProposalOf(one));
    }
  }
  if (!first.empty()) {
    const DraftPlan plan = planner.ChooseDrafts(proposals);
    for (size_t i = 0; i < first.size(); ++i) {
      first[i]->declined = !plan.drafts[i];
      if (!plan.drafts[i]) continue;
      drafting.push_back(first[i]);
      ++*planned;
    }
    for (const int i : plan.explored) first[i]->explores = true;
  }
  if (!further.empty()) {
    const std::vector<bool> chosen = planner.ChooseRounds(round_proposals, costs_->further_round());
    for (size_t i = 0; i < further.size(); ++i) {
      further[i]->declined = !chosen[i];
      if (chosen[i]) drafting.push_back(further[i]);
    }
  }
  return drafting;
}

absl::Duration DraftRounds::Expand(const Drafting& drafting, StopWatch& watch,
                                   DraftOutcome* outcome) {
  std::vector<Frontier> frontiers;
  int excess = 0, usual = 0;
  bool further = true;
  for (const GrowingTree* one : drafting) {
    const int new_tokens = one->sequence->undrafted_tokens();
    excess += DraftCost::ExcessTokens(new_tokens);
    usual += new_tokens - DraftCost::ExcessTokens(new_tokens);
    further = further && one->round->further;
    frontiers.push_back(one->sequence->NextFrontier(*one->round));
    if (!scores_pairs_) continue;
    frontiers.back().candidates = std::max(frontiers.back().candidates, kPairCandidates);
  }
  if (!std::exchange(outcome->requested, true)) outcome->began = clock_->Now();
  absl::StatusOr<DraftResult> result = drafter_->Expand(frontiers);
  const absl::Duration spent = watch.Lap();
  outcome->spent += spent;
  outcome->ended = clock_->Now();
  outcome->status = result.status();
  ObserveCost(drafting, further, {static_cast<int>(drafting.size()), spent, excess, usual}, result);
  LearnKind(result.ok());
  for (size_t i = 0; i < drafting.size(); ++i) {
    DecodeSequence& sequence = *drafting[i]->sequence;
    const bool replied = result.ok() && i < result->drafts.size();
    sequence.RecordExpand(result.ok() && !(replied && WasRefused(result->drafts[i])));
    // The others have drafts.
    if (replied && drafting.size() == 1) outcome->status = result->drafts[i].status;
    std::vector<Marginals> marginals;
    if (replied) marginals = std::move(result->drafts[i].marginals);
    for (Marginals& one : marginals) {
      const absl::Status valid = one.Validate(vocabulary_);
      if (!one.empty()) scores_pairs_ = !one.pair_scores.empty();
      if (valid.ok()) continue;
      outcome->status = valid;
      one = {};
    }
    sequence.policy().AddDraft(std::move(marginals), expands_nodes_);
  }
  return further ? spent : absl::ZeroDuration();
}

void DraftRounds::ObserveCost(const Drafting& drafting, bool further, DraftCall call,
                              const absl::StatusOr<DraftResult>& result) {
  if (further) {
    call.sequences = 0;  // The cost of a further round is by nodes.
    for (const GrowingTree* one : drafting) {
      call.sequences += static_cast<int>(one->round->paths.size());
    }
  }
  DraftCost& cost = further ? costs_->further_round() : costs_->draft();
  if (!result.ok()) {
    cost.ObserveFailure(call.sequences, call.spent);
    return;
  }
  // A sequence whose context the drafter still lacks gets no predictions, and costs almost nothing.
  const auto predicted = std::count_if(result->drafts.begin(), result->drafts.end(), HasPrediction);
  if (predicted == 0) return;
  if (!further) call.sequences = static_cast<int>(predicted);
  call.trace = result->trace;
  cost.Observe(call);
}

void DraftRounds::LearnKind(bool expanded) {
  if (!expanded) {
    knows_kind_ = false;
  } else if (!knows_kind_) {
    const absl::StatusOr<DrafterInfo> info = drafter_->Info();
    knows_kind_ = info.ok();
    if (info.ok()) expands_nodes_ = info->expands_nodes;
  }
}

}  // namespace bastion
