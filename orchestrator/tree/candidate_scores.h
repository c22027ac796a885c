// CandidateScores: the [P, K] table that a tree is grown from, as a view.
//
// The growers (best_first, beam, chain) read candidates only through this view, so what ranks them
// can change without touching the growers: today the drafter's own log-probabilities.
// Owns nothing: the arrays must outlive it. Thread-compatible.
//
// Invariants (those of Marginals::Validate): within a position, scores fall with rank and no token
// repeats; scores are <= 0 and not NaN; -inf marks a candidate that is never taken.
#ifndef BASTION_ORCHESTRATOR_TREE_CANDIDATE_SCORES_H_
#define BASTION_ORCHESTRATOR_TREE_CANDIDATE_SCORES_H_

#include <algorithm>
#include <cstddef>

#include "common/base/ids.h"
#include "common/tree/marginals.h"

namespace bastion {

struct CandidateScores {
  int positions = 0;                  // P
  int candidates = 0;                 // K
  const TokenId* tokens = nullptr;    // [P, K]
  const float* log_scores = nullptr;  // [P, K]

  // The drafter's own log-probabilities.
  [[nodiscard]] static CandidateScores Of(const Marginals& marginals) {
    return {marginals.positions, marginals.candidates, marginals.tokens.data(),
            marginals.log_probs.data()};
  }

  // The first `depth` positions: no tree grown from them is deeper.
  [[nodiscard]] CandidateScores LimitedTo(int depth) const {
    return {std::clamp(depth, 0, positions), candidates, tokens, log_scores};
  }

  [[nodiscard]] TokenId token(int position, int rank) const {
    return tokens[static_cast<size_t>(position) * candidates + rank];
  }
  [[nodiscard]] float log_score(int position, int rank) const {
    return log_scores[static_cast<size_t>(position) * candidates + rank];
  }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CANDIDATE_SCORES_H_
