// Candidates: the ranked tokens that may follow a node. The growers (best_first, beam, chain) see
// candidates only through this interface and do not know their origin.
//
// DraftCandidates are the drafter's own (draft_rows.h). WeightedCandidates and PriorCandidates
// (orchestrator/prior/weighted_candidates.h) also depend on the tokens of the node's path.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TREE_CANDIDATES_H_
#define BASTION_ORCHESTRATOR_TREE_CANDIDATES_H_

#include <algorithm>
#include <limits>
#include <memory>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"
#include "orchestrator/tree/candidate_list.h"
#include "orchestrator/tree/cycle_draft.h"
#include "orchestrator/tree/draft_rows.h"

namespace bastion {

class Candidates {
 public:
  virtual ~Candidates() = default;
  // A tree grown from these candidates is at most this deep.
  [[nodiscard]] virtual int max_depth() const = 0;
  // The candidates for children of `node`; empty if the node cannot have children. The list is
  // valid as long as this object exists. REQUIRES: `node` is in `tree`, and the path to it does not
  // change later.
  [[nodiscard]] virtual CandidateList After(const DraftTree& tree, NodeIndex node) = 0;
  // The same, from the block of `start` alone (CycleDraft::InBlock): `start` is expanded even if an
  // ancestor's block reaches it. Empty if `node` is not on the spine of that block. Candidates that
  // do not come from blocks are the same in every block. REQUIRES: `start` is `node` or an ancestor
  // of it.
  [[nodiscard]] virtual CandidateList InBlock(const DraftTree& tree, NodeIndex /*start*/,
                                              NodeIndex node) {
    return After(tree, node);
  }
};

// The drafter's candidates. They are listed for depths below `depth`.
class DraftCandidates final : public Candidates {
 public:
  static constexpr int kAnyDepth = std::numeric_limits<int>::max();

  // Does not own `draft`, which must outlive this object.
  explicit DraftCandidates(CycleDraft& draft, int depth = kAnyDepth)
      : draft_(&draft), max_depth_(std::clamp(depth, 0, draft.max_depth())) {}
  // The draft of the root alone. Copies `marginals`.
  explicit DraftCandidates(const Marginals& marginals, int depth = kAnyDepth)
      : owned_(std::make_unique<CycleDraft>(marginals)),
        draft_(owned_.get()),
        max_depth_(std::clamp(depth, 0, owned_->max_depth())) {}

  [[nodiscard]] int max_depth() const override { return max_depth_; }
  [[nodiscard]] CandidateList After(const DraftTree& tree, NodeIndex node) override {
    if (tree.depth(node) >= max_depth_) return {};
    return rows_.At(draft_->After(tree, node));
  }
  [[nodiscard]] CandidateList InBlock(const DraftTree& tree, NodeIndex start,
                                      NodeIndex node) override {
    if (tree.depth(node) >= max_depth_) return {};
    return rows_.At(draft_->InBlock(tree, start, node));
  }

 private:
  const std::unique_ptr<CycleDraft> owned_;
  CycleDraft* const draft_;
  const int max_depth_;
  DraftRows rows_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CANDIDATES_H_
