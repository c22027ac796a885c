#include "orchestrator/cycle/forest_grower.h"

#include <algorithm>
#include <optional>

namespace bastion {
namespace {

// A forward may hold this many rows per sequence even where that was not measured.
constexpr int kRowsPerSequence = 4;

}  // namespace

void ForestGrower::BeginPlan(absl::Span<const GrowingTree> growing, int certain) {
  VerifySize size = roots_;
  size.rows += certain;
  // Costs beyond the measured rows are extrapolated, so they are not planned for without need.
  const int max_tree_rows = std::max(costs_->measured_rows(), kRowsPerSequence * size.sequences);
  const int max_rows = std::min(target_.max_rows, size.prompts.rows + max_tree_rows);
  const auto drafts = static_cast<int>(growing.size());
  BatchCost cost = costs_->CostOf(size, std::max(0, max_rows - size.rows), drafts);
  cost.waiting_factor = WaitingFactor();
  double weight = 0;
  for (const GrowingTree& one : growing) {
    weight += one.sequence->weight();
    cost.max_seconds =
        std::min(cost.max_seconds, absl::ToDoubleSeconds(one.sequence->longest_cycle()));
  }
  planner_.Begin(std::move(cost), weight);
}

double ForestGrower::WaitingFactor() const {
  VerifySize all = roots_.decoding();
  all.sequences += roots_.prompts.chunks + waiting_;
  if (all.sequences == roots_.sequences) return 1;
  const double seconds_ratio =
      absl::FDivDuration(costs_->PredictPlain(all), costs_->PredictPlain(roots_.decoding()));
  return std::max(1.0, all.sequences / (roots_.sequences * seconds_ratio));
}

std::vector<GrowingTree> ForestGrower::ShareRows(absl::Span<DecodeSequence* const> sequences,
                                                 const PromptSize& prompts) {
  std::vector<GrowingTree> growing;
  growing.reserve(sequences.size());
  const auto count = static_cast<int>(sequences.size());
  const int tree_rows = target_.max_rows - prompts.rows;
  int64_t cached = 0;
  planned_ = rested_ = false;
  for (DecodeSequence* sequence : sequences) {
    const bool planned = sequence->policy().planned();
    planned_ = planned_ || planned;
    cached += sequence->committed();
    // A planned tree may use what the others leave; any other tree has its share of the rows.
    TargetInfo share = target_;
    share.max_rows = std::max(1, planned ? tree_rows - (count - 1) : tree_rows / count);
    growing.push_back({sequence, sequence->Limits(share)});
    TreeLimits& limits = growing.back().limits;
    if (limits.reason == BudgetReason::kRows && share.max_rows < target_.max_rows) {
      limits.reason = BudgetReason::kShare;
    }
  }
  roots_ = {.sequences = count,
            .rows = prompts.rows + count,
            .context = count == 0 ? 0 : static_cast<int>(cached / count),
            .prompts = prompts};
  return growing;
}

void ForestGrower::RestOrPlan(std::vector<GrowingTree>& growing) {
  if (!planned_) return;
  const std::optional<BudgetReason> rest = planner_.RestReason(roots_.sequences);
  rested_ = rest.has_value();
  if (!rested_) return BeginPlan(growing, /*certain=*/0);
  rest_prompt_seconds_ = costs_->CostOf(roots_, /*max_nodes=*/0, /*max_drafts=*/0).prompt_seconds;
  for (GrowingTree& one : growing) {
    if (!one.sequence->policy().planned()) continue;
    one.limits.nodes = one.limits.depth = 0;
    one.limits.reason = *rest;
  }
}

GrownForest ForestGrower::Grow(absl::Span<DecodeSequence* const> sequences,
                               const PromptSize& prompts, int waiting) {
  GrownForest grown;
  waiting_ = waiting;
  StopWatch watch(*clock_);
  std::vector<GrowingTree> growing = ShareRows(sequences, prompts);
  grown.size = roots_;
  if (growing.empty()) return grown;
  RestOrPlan(growing);
  grown.planned = !rested_;
  for (const GrowingTree& one : growing) {
    one.sequence->policy().Begin(one.sequence->root(), one.limits, planner_.min_values());
  }
  grown.draft = rounds_.Run(absl::MakeSpan(growing), planner_, watch);
  FinishTrees(growing, &grown);
  grown.tree_time = grown.draft.choosing + watch.Lap();
  return grown;
}

void ForestGrower::FinishTrees(std::vector<GrowingTree>& growing, GrownForest* grown) {
  std::vector<TreeProposal> proposals;
  proposals.reserve(growing.size());
  int certain = 0;
  bool planned = false;
  for (const GrowingTree& one : growing) {
    proposals.push_back(one.sequence->policy().ProposeTree());
    proposals.back().mask_seconds = one.sequence->mask_seconds();
    certain += proposals.back().certain;
    planned = planned || !proposals.back().values.empty();
  }
  NodePlan plan;
  if (planned) {
    if (certain > 0) BeginPlan(growing, certain);
    plan = planner_.ChooseNodes(proposals, grown->draft.planned);
  }
  grown->size = roots_;
  grown->trees.reserve(growing.size());
  for (size_t i = 0; i < growing.size(); ++i) {
    BudgetReason reason = planned ? plan.reasons[i] : proposals[i].end;
    if (growing[i].explores) reason = BudgetReason::kExploration;
    grown->trees.push_back(
        growing[i].sequence->policy().Finish(planned ? plan.nodes[i] : 0, reason));
    grown->size.rows += grown->trees.back().tree.nodes();
  }
  Constrain(growing, grown);
}

void ForestGrower::Constrain(const std::vector<GrowingTree>& growing, GrownForest* grown) {
  StopWatch watch(*clock_);
  for (size_t i = 0; i < growing.size(); ++i) {
    GrownTree& tree = grown->trees[i];
    const int before = tree.tree.nodes();
    DecodeSequence& sequence = *growing[i].sequence;
    const TreeLimits& limits = growing[i].limits;
    const int room = std::min(target_.max_rows - grown->size.rows, limits.nodes - before);
    forced_.AddTo(&tree.tree, sequence, room, limits.depth, planner_);
    watch.Lap();
    sequence.Constrain(&tree);
    sequence.RecordMasks(tree.tree.rows(), watch.Lap());
    grown->size.rows += tree.tree.nodes() - before;
  }
}

}  // namespace bastion
