#include "orchestrator/cycle/forest_grower.h"

#include <algorithm>

#include "common/base/check.h"

namespace bastion {
namespace {

constexpr size_t kNoFrontier = static_cast<size_t>(-1);

}  // namespace

GrownForest ForestGrower::Grow(absl::Span<DecodeSequence* const> sequences) {
  GrownForest grown;
  // Every sequence gets an equal share of the rows of the forward.
  TargetInfo share = target_;
  share.max_rows = std::max(1, target_.max_rows / std::max<int>(1, sequences.size()));
  StopWatch watch(*clock_);
  std::vector<TreeLimits> limits;
  std::vector<Frontier> frontiers;
  std::vector<size_t> frontier_of;  // By sequence: index into `frontiers`, or kNoFrontier.
  for (DecodeSequence* sequence : sequences) {
    limits.push_back(sequence->Limits(share));
    const bool wanted = sequence->grower().DecideDraft(sequence->root(), limits.back());
    frontier_of.push_back(wanted ? frontiers.size() : kNoFrontier);
    if (wanted) frontiers.push_back(sequence->NextFrontier(limits.back()));
  }
  grown.times.tree = watch.Lap();
  std::vector<Draft> drafts;
  grown.draft_requested = !frontiers.empty();
  if (grown.draft_requested) {
    absl::StatusOr<std::vector<Draft>> expanded = drafter_->Expand(frontiers);
    grown.times.draft = watch.Lap();
    grown.draft_status = expanded.status();
    for (size_t i = 0; i < sequences.size(); ++i) {
      if (frontier_of[i] != kNoFrontier) sequences[i]->RecordExpand(expanded.ok());
    }
    if (expanded.ok()) {
      drafts = *std::move(expanded);
      costs_->ObserveDraft(grown.times.draft);
    }
  }
  static const Marginals kNoDraft;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const TokenId root = sequences[i]->root();
    if (frontier_of[i] == kNoFrontier) {
      grown.trees.push_back(sequences[i]->grower().GrowWithoutDraft(root, limits[i]));
      continue;
    }
    const Marginals* marginals = &kNoDraft;
    if (frontier_of[i] < drafts.size() && !drafts[frontier_of[i]].marginals.empty()) {
      marginals = &drafts[frontier_of[i]].marginals[0];
      if (const absl::Status valid = marginals->Validate(target_.dims.vocabulary); !valid.ok()) {
        grown.draft_status = valid;
        marginals = &kNoDraft;
      }
    }
    grown.trees.push_back(sequences[i]->grower().Grow(root, *marginals, limits[i]));
  }
  grown.times.tree += watch.Lap();
  return grown;
}

}  // namespace bastion
