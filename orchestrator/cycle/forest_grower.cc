#include "orchestrator/cycle/forest_grower.h"

#include <algorithm>

#include "common/base/check.h"

namespace bastion {
namespace {

constexpr size_t kNotAsked = static_cast<size_t>(-1);

}  // namespace

GrownForest ForestGrower::Grow(absl::Span<DecodeSequence* const> sequences) {
  GrownForest grown;
  // Equal shares of a forward's rows, until budgets are shared by need.
  TargetInfo share = target_;
  share.max_rows = std::max(1, target_.max_rows / std::max<int>(1, sequences.size()));
  StopWatch watch(*clock_);
  std::vector<TreeLimits> limits;
  std::vector<Frontier> frontiers;
  std::vector<size_t> asked;  // Index into `frontiers`.
  for (DecodeSequence* sequence : sequences) {
    limits.push_back(sequence->Limits(share));
    const bool wanted = sequence->grower().DecideDraft(sequence->root(), limits.back());
    asked.push_back(wanted ? frontiers.size() : kNotAsked);
    if (wanted) frontiers.push_back(sequence->NextFrontier(limits.back()));
  }
  grown.times.tree = watch.Lap();
  std::vector<Draft> drafts;
  grown.asked = !frontiers.empty();
  if (grown.asked) {
    absl::StatusOr<std::vector<Draft>> expanded = drafter_->Expand(frontiers);
    grown.times.draft = watch.Lap();
    grown.draft_status = expanded.status();
    for (size_t i = 0; i < sequences.size(); ++i) {
      if (asked[i] != kNotAsked) sequences[i]->Expanded(expanded.ok());
    }
    if (expanded.ok()) {
      drafts = *std::move(expanded);
      costs_->ObserveDraft(grown.times.draft);
    }
  }
  static const Marginals kNothing;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TokenId root = sequences[i]->root();
    if (asked[i] == kNotAsked) {
      grown.trees.push_back(sequences[i]->grower().GrowWithoutDraft(root, limits[i]));
      continue;
    }
    const Marginals* marginals = &kNothing;
    if (asked[i] < drafts.size() && !drafts[asked[i]].marginals.empty()) {
      marginals = &drafts[asked[i]].marginals[0];
      if (const absl::Status valid = marginals->Validate(target_.dims.vocabulary); !valid.ok()) {
        grown.draft_status = valid;
        marginals = &kNothing;
      }
    }
    grown.trees.push_back(sequences[i]->grower().Grow(root, *marginals, limits[i]));
  }
  grown.times.tree += watch.Lap();
  return grown;
}

}  // namespace bastion
