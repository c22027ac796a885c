// DDTree's Algorithm 1 once more, written down as the paper prints it: plain, slow and obvious,
// with nothing shared with orchestrator/tree. Trees and τ of the engine are compared with it.
#ifndef BASTION_TESTS_SUPPORT_DDTREE_REFERENCE_H_
#define BASTION_TESTS_SUPPORT_DDTREE_REFERENCE_H_

#include <vector>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"

namespace bastion::testing {

// ρ of the paper: one rank per position, from 0.
using RankTuple = std::vector<int>;

// σ(ρ), the sum of the log-probabilities along the tuple.
[[nodiscard]] double Sigma(const Marginals& marginals, const RankTuple& ranks);

// The tuples of the algorithm in the order in which it pops them: at most `budget`.
[[nodiscard]] std::vector<RankTuple> DdtreeRankTuples(const Marginals& marginals, int budget);

// The tree of these tuples.
[[nodiscard]] DraftTree DdtreeReference(TokenId root, const Marginals& marginals, int budget);

// All rank tuples of non-zero probability, the most probable first (Proposition 2's order).
// The number of tuples is K + K² + … + K^P: for small cases only.
[[nodiscard]] std::vector<RankTuple> AllRankTuplesByProbability(const Marginals& marginals);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_DDTREE_REFERENCE_H_
