// CandidateRows: the ranked tokens that may follow a node, the only thing that the growers
// (best_first, beam, chain) know of where candidates come from.
//
// MarginalRows is the papers' procedure: all nodes of a depth share the drafter's marginal of that
// position. EvidenceRows and PriorRows (evidence_rows.h) look at the node's own path.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TREE_CANDIDATES_H_
#define BASTION_ORCHESTRATOR_TREE_CANDIDATES_H_

#include <algorithm>
#include <cstddef>
#include <limits>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"

namespace bastion {

// The candidates after one node. Scores are log-probabilities: they fall with rank, are <= 0 and
// not NaN; -inf marks a candidate that is never taken. No token repeats.
struct CandidateRow {
  const TokenId* tokens = nullptr;    // [size]
  const float* log_scores = nullptr;  // [size]
  int size = 0;
};

class CandidateRows {
 public:
  virtual ~CandidateRows() = default;
  // No tree grown from this is deeper.
  [[nodiscard]] virtual int positions() const = 0;
  // Empty when nothing may follow. Valid as long as this object.
  // REQUIRES: `node` is a row of `tree`, whose path to it does not change any more.
  [[nodiscard]] virtual CandidateRow After(const DraftTree& tree, NodeIndex node) const = 0;
};

// Owns nothing: the marginals must outlive it.
class MarginalRows final : public CandidateRows {
 public:
  // `depth` limits the positions that are used.
  explicit MarginalRows(const Marginals& marginals, int depth = std::numeric_limits<int>::max())
      : marginals_(marginals), positions_(std::clamp(depth, 0, marginals.positions)) {}

  [[nodiscard]] int positions() const override { return positions_; }
  [[nodiscard]] CandidateRow After(const DraftTree& tree, NodeIndex node) const override {
    const int position = tree.depth(node);
    if (position >= positions_) return {};
    const size_t begin = static_cast<size_t>(position) * marginals_.candidates;
    return {&marginals_.tokens[begin], &marginals_.log_probs[begin], marginals_.candidates};
  }

 private:
  const Marginals& marginals_;
  const int positions_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CANDIDATES_H_
