#include "orchestrator/cycle/forest_grower.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace bastion {
namespace {

// A forward may hold this many rows per sequence even where that was not measured.
constexpr int kRowsPerSequence = 4;

constexpr double kLaterAlpha = 0.1;  // Step size of the expected time of further rounds.

bool HasPrediction(const Draft& draft) {
  return std::any_of(draft.marginals.begin(), draft.marginals.end(),
                     [](const Marginals& marginals) { return !marginals.empty(); });
}

}  // namespace

void ForestGrower::BeginPlan(absl::Span<const Growing> growing, int certain) {
  VerifySize size = roots_;
  size.rows += certain;
  // Costs beyond the measured rows are extrapolated, so they are not planned for without need.
  const int max_tree_rows = std::max(costs_->measured_rows(), kRowsPerSequence * size.sequences);
  const int max_rows = std::min(target_.max_rows, size.prompts.rows + max_tree_rows);
  const auto drafts = static_cast<int>(growing.size());
  BatchCost cost = costs_->CostOf(size, std::max(0, max_rows - size.rows), drafts);
  double weight = 0;
  for (const Growing& one : growing) {
    weight += one.sequence->weight();
    cost.max_seconds =
        std::min(cost.max_seconds, absl::ToDoubleSeconds(one.sequence->longest_cycle()));
  }
  planner_.Begin(std::move(cost), weight);
}

GrownForest ForestGrower::Grow(absl::Span<DecodeSequence* const> sequences,
                               const PromptSize& prompts) {
  GrownForest grown;
  StopWatch watch(*clock_);
  roots_ = {.sequences = 0, .rows = prompts.rows, .context = 0, .prompts = prompts};
  drafts_ = 0;
  round_seconds_ = 0;
  planned_ = rested_ = false;
  grown.size = roots_;
  if (sequences.empty()) return grown;
  const auto count = static_cast<int>(sequences.size());
  const int tree_rows = target_.max_rows - prompts.rows;
  std::vector<Growing> growing;
  growing.reserve(sequences.size());
  int64_t cached = 0;
  for (DecodeSequence* sequence : sequences) {
    planned_ = planned_ || sequence->policy().planned();
    cached += sequence->committed();
    // A planned tree may use what the others leave; any other tree has its share of the rows.
    TargetInfo share = target_;
    share.max_rows =
        std::max(1, sequence->policy().planned() ? tree_rows - (count - 1) : tree_rows / count);
    growing.push_back({sequence, sequence->Limits(share)});
    TreeLimits& limits = growing.back().limits;
    if (limits.reason == BudgetReason::kRows && share.max_rows < target_.max_rows) {
      limits.reason = BudgetReason::kShare;
    }
  }
  roots_.sequences = count;
  roots_.rows += count;
  roots_.context = static_cast<int>(cached / count);
  const std::optional<BudgetReason> rest =
      planned_ ? planner_.RestReason(count) : std::optional<BudgetReason>();
  rested_ = rest.has_value();
  grown.planned = !rested_;
  if (rested_) {
    for (Growing& one : growing) {
      if (!one.sequence->policy().planned()) continue;
      one.limits.nodes = one.limits.depth = 0;
      one.limits.reason = *rest;
    }
  } else if (planned_) {
    BeginPlan(growing, /*certain=*/0);
  }
  for (const Growing& one : growing) {
    one.sequence->policy().Begin(one.sequence->root(), one.limits, planner_.min_values());
  }
  for (;;) {
    const std::vector<Growing*> drafting = ChooseDrafts(growing);
    if (drafting.empty()) break;
    grown.times.tree += watch.Lap();
    Expand(drafting, &grown, &watch);
  }
  if (drafts_ > 0) later_seconds_ += kLaterAlpha * (round_seconds_ / drafts_ - later_seconds_);
  FinishTrees(growing, &grown);
  grown.times.tree += watch.Lap();
  return grown;
}

DraftOffer ForestGrower::OfferOf(const Growing& one) const {
  DraftOffer offer = one.round->offer;
  const DecodeSequence& sequence = *one.sequence;
  offer.catch_up_seconds =
      costs_->draft().CatchUp(DraftCost::ExcessTokens(sequence.undrafted_tokens()));
  offer.cycles_left = sequence.request().max_tokens - static_cast<int>(sequence.output().size());
  offer.later_seconds = later_seconds_;
  offer.mask_seconds = sequence.mask_seconds();
  return offer;
}

std::vector<ForestGrower::Growing*> ForestGrower::ChooseDrafts(std::vector<Growing>& growing) {
  std::vector<Growing*> drafting, first, further;
  std::vector<DraftOffer> offers;
  std::vector<RoundOffer> round_offers;
  offers.reserve(growing.size());
  for (Growing& one : growing) {
    if (one.declined) continue;
    one.round = one.sequence->policy().NextRound();
    if (one.round == nullptr) continue;
    if (one.round->required) {
      drafting.push_back(&one);
    } else if (one.round->further) {
      further.push_back(&one);
      const DraftOffer& offer = one.round->offer;
      round_offers.push_back({offer.without, offer.with, static_cast<int>(one.round->paths.size()),
                              offer.weight, one.sequence->mask_seconds()});
    } else {
      first.push_back(&one);
      offers.push_back(OfferOf(one));
    }
  }
  if (!first.empty()) {
    const DraftPlan plan = planner_.ChooseDrafts(offers);
    for (size_t i = 0; i < first.size(); ++i) {
      first[i]->declined = !plan.drafts[i];
      if (!plan.drafts[i]) continue;
      drafting.push_back(first[i]);
      ++drafts_;
    }
    for (const int i : plan.explored) first[i]->explores = true;
  }
  if (!further.empty()) {
    const std::vector<bool> chosen = planner_.ChooseRounds(round_offers, costs_->further_round());
    for (size_t i = 0; i < further.size(); ++i) {
      further[i]->declined = !chosen[i];
      if (chosen[i]) drafting.push_back(further[i]);
    }
  }
  return drafting;
}

void ForestGrower::Expand(absl::Span<Growing* const> drafting, GrownForest* grown,
                          StopWatch* watch) {
  std::vector<Frontier> frontiers;
  int excess = 0;
  for (const Growing* one : drafting) {
    excess += DraftCost::ExcessTokens(one->sequence->undrafted_tokens());
    frontiers.push_back(one->sequence->NextFrontier(*one->round));
  }
  if (!std::exchange(grown->draft_requested, true)) grown->draft_began = clock_->Now();
  absl::StatusOr<DraftResult> result = drafter_->Expand(frontiers);
  const absl::Duration spent = watch->Lap();
  grown->times.draft += spent;
  grown->tree_began = clock_->Now();
  grown->draft_status = result.status();
  ObserveCost(drafting, {static_cast<int>(drafting.size()), spent, excess}, result);
  LearnKind(result.ok());
  for (size_t i = 0; i < drafting.size(); ++i) {
    DecodeSequence& sequence = *drafting[i]->sequence;
    const bool replied = result.ok() && i < result->drafts.size();
    sequence.RecordExpand(result.ok() && !(replied && WasRefused(result->drafts[i])));
    // The others have drafts.
    if (replied && drafting.size() == 1) grown->draft_status = result->drafts[i].status;
    std::vector<Marginals> marginals;
    if (replied) marginals = std::move(result->drafts[i].marginals);
    for (Marginals& one : marginals) {
      const absl::Status valid = one.Validate(target_.dims.vocabulary);
      if (valid.ok()) continue;
      grown->draft_status = valid;
      one = {};
    }
    sequence.policy().AddDraft(std::move(marginals), expands_nodes_);
  }
}

void ForestGrower::ObserveCost(absl::Span<Growing* const> drafting, DraftCall call,
                               const absl::StatusOr<DraftResult>& result) {
  int paths = 0;
  bool further = true;
  for (const Growing* one : drafting) {
    paths += static_cast<int>(one->round->paths.size());
    further = further && one->round->further;
  }
  DraftCost& cost = further ? costs_->further_round() : costs_->draft();
  if (further) {
    call.sequences = paths;
    round_seconds_ += absl::ToDoubleSeconds(call.spent);
  }
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

void ForestGrower::LearnKind(bool expanded) {
  if (!expanded) {
    knows_kind_ = false;
  } else if (!knows_kind_) {
    const absl::StatusOr<DrafterInfo> info = drafter_->Info();
    knows_kind_ = info.ok();
    if (info.ok()) expands_nodes_ = info->expands_nodes;
  }
}

void ForestGrower::FinishTrees(std::vector<Growing>& growing, GrownForest* grown) {
  std::vector<TreeOffer> offers;
  offers.reserve(growing.size());
  int certain = 0;
  bool planned = false;
  for (const Growing& one : growing) {
    offers.push_back(one.sequence->policy().OfferTree());
    offers.back().mask_seconds = one.sequence->mask_seconds();
    certain += offers.back().certain;
    planned = planned || !offers.back().values.empty();
  }
  NodePlan plan;
  if (planned) {
    if (certain > 0) BeginPlan(growing, certain);
    plan = planner_.ChooseNodes(offers, drafts_);
  }
  grown->size = roots_;
  grown->trees.reserve(growing.size());
  for (size_t i = 0; i < growing.size(); ++i) {
    BudgetReason reason = planned ? plan.reasons[i] : offers[i].end;
    if (growing[i].explores) reason = BudgetReason::kExploration;
    grown->trees.push_back(
        growing[i].sequence->policy().Finish(planned ? plan.nodes[i] : 0, reason));
    grown->size.rows += grown->trees.back().tree.nodes();
  }
  Constrain(growing, grown);
}

void ForestGrower::Constrain(const std::vector<Growing>& growing, GrownForest* grown) {
  StopWatch watch(*clock_);
  for (size_t i = 0; i < growing.size(); ++i) {
    GrownTree& tree = grown->trees[i];
    const int before = tree.tree.nodes();
    AddForced(growing[i], target_.max_rows - grown->size.rows, &tree.tree);
    watch.Lap();
    growing[i].sequence->Constrain(&tree);
    growing[i].sequence->RecordMasks(tree.tree.rows(), watch.Lap());
    grown->size.rows += tree.tree.nodes() - before;
  }
}

void ForestGrower::AddForced(const Growing& one, int room, DraftTree* tree) {
  DecodeSequence& sequence = *one.sequence;
  forced_.Observe(sequence.TakeForcedOutcome());
  room = std::min(room, one.limits.nodes - tree->nodes());
  if (room <= 0 || one.limits.depth <= 0) return;
  absl::Span<const TokenId> forced = sequence.FindForced();
  forced = forced.first(std::min<size_t>(forced.size(), one.limits.depth));
  const int known = LengthInTree(*tree, forced);
  int added = std::min(room, static_cast<int>(forced.size()) - known);
  if (sequence.policy().planned()) {
    std::vector<double> values;
    for (int n = 1; n <= added; ++n) values.push_back(std::pow(forced_.rate(), known + n));
    added = planner_.ChooseFurtherNodes(
        {.values = values, .weight = sequence.weight(), .mask_seconds = sequence.mask_seconds()});
  }
  AddPath(forced.first(known + added), tree);
}

}  // namespace bastion
