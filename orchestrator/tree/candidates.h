// Candidates: the ranked tokens that may follow a node. The growers (best_first, beam, chain) see
// candidates only through this interface and do not know their origin.
//
// DraftCandidates is the papers' procedure: all nodes of a depth share the drafter's marginal of
// that position. WeightedCandidates and PriorCandidates (orchestrator/prior/weighted_candidates.h)
// also depend on the node's own path.
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

// The candidates after one node, best first. Scores are log-probabilities: non-increasing, <= 0 and
// not NaN. A candidate with score -inf is never taken. Tokens are distinct.
struct CandidateList {
  const TokenId* tokens = nullptr;    // [size]
  const float* log_scores = nullptr;  // [size]
  int size = 0;
};

class Candidates {
 public:
  virtual ~Candidates() = default;
  // A tree grown from these candidates is at most this deep.
  [[nodiscard]] virtual int max_depth() const = 0;
  // The candidates for children of `node`; empty if the node cannot have children. The list is
  // valid as long as this object exists. REQUIRES: `node` is in `tree`, and the path to it does not
  // change later.
  [[nodiscard]] virtual CandidateList After(const DraftTree& tree, NodeIndex node) const = 0;
};

// The drafter's candidates. Does not own `marginals`, which must outlive it.
class DraftCandidates final : public Candidates {
 public:
  // Uses at most the first `depth` positions of `marginals`.
  explicit DraftCandidates(const Marginals& marginals, int depth = std::numeric_limits<int>::max())
      : marginals_(marginals), max_depth_(std::clamp(depth, 0, marginals.positions)) {}

  [[nodiscard]] int max_depth() const override { return max_depth_; }
  [[nodiscard]] CandidateList After(const DraftTree& tree, NodeIndex node) const override {
    const int position = tree.depth(node);
    if (position >= max_depth_) return {};
    const size_t begin = static_cast<size_t>(position) * marginals_.candidates;
    return {marginals_.tokens.data() + begin, marginals_.log_probs.data() + begin,
            marginals_.candidates};
  }

 private:
  const Marginals& marginals_;
  const int max_depth_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CANDIDATES_H_
