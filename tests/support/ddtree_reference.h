// A second implementation of DDTree's Algorithm 1, as printed in the paper. It is slow and simple
// and shares no code with orchestrator/tree. Tests compare the orchestrator's trees and τ with it.
#ifndef BASTION_TESTS_SUPPORT_DDTREE_REFERENCE_H_
#define BASTION_TESTS_SUPPORT_DDTREE_REFERENCE_H_

#include <vector>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"

namespace bastion::testing {

// One rank per position, counted from 0. DDTree calls it ρ (not the path score of best_first.h).
using RankTuple = std::vector<int>;

// DDTree's σ(ρ): the sum of the log-probabilities along the tuple, which is the log of its path
// score.
[[nodiscard]] double Sigma(const Marginals& marginals, const RankTuple& ranks);

// At most `budget` tuples, in the order in which the algorithm pops them.
[[nodiscard]] std::vector<RankTuple> DdtreeRankTuples(const Marginals& marginals, int budget);

// The tree of the tuples that DdtreeRankTuples returns.
[[nodiscard]] DraftTree DdtreeReference(TokenId root, const Marginals& marginals, int budget);

// All rank tuples with non-zero probability, the most probable first (the order of Proposition 2).
// There are up to K + K² + … + K^P tuples, so use it for small cases only.
[[nodiscard]] std::vector<RankTuple> AllRankTuplesByProbability(const Marginals& marginals);

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_DDTREE_REFERENCE_H_
