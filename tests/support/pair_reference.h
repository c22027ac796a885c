// Pair scores by their definition: the second implementation that tests compare trees with.
// Header-only.
#ifndef BASTION_TESTS_SUPPORT_PAIR_REFERENCE_H_
#define BASTION_TESTS_SUPPORT_PAIR_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"

namespace bastion::testing {

// How often the logarithm of the drafter's probability and the pair score count.
struct PairWeights {
  double draft = 1;
  double pair = 1;
};

// The probability of the candidate `rank` of `position` after the candidate `previous` of the
// position before it. At position 0, `previous` is 0.
inline double PairProbability(const Marginals& marginals, int position, int previous, int rank,
                              const PairWeights& weights = {}) {
  double mass = 0, sum = 0, own = 0;
  for (int other = 0; other < marginals.candidates; ++other) {
    const double log_prob = marginals.log_prob(position, other);
    const double pair = marginals.pair_row(position, previous)[other];
    const double share =
        std::isinf(log_prob) ? 0 : std::exp(weights.draft * log_prob + weights.pair * pair);
    mass += std::exp(log_prob);
    sum += share;
    if (other == rank) own = share;
  }
  return sum == 0 ? 0 : mass * own / sum;
}

// The ranks of the candidates on a path, with its probability.
struct RankedPath {
  std::vector<int> ranks;
  double probability = 1;
};

// All paths with non-zero probability, the most probable ones first.
inline std::vector<RankedPath> AllPairPaths(const Marginals& marginals) {
  std::vector<RankedPath> paths = {{}};
  for (size_t at = 0; at < paths.size(); ++at) {
    const RankedPath above = paths[at];
    const auto position = static_cast<int>(above.ranks.size());
    if (position == marginals.positions) continue;
    const int previous = position == 0 ? 0 : above.ranks.back();
    for (int rank = 0; rank < marginals.candidates; ++rank) {
      const double probability =
          above.probability * PairProbability(marginals, position, previous, rank);
      if (probability == 0) continue;
      paths.push_back({above.ranks, probability});
      paths.back().ranks.push_back(rank);
    }
  }
  paths.erase(paths.begin());
  std::stable_sort(paths.begin(), paths.end(), [](const RankedPath& a, const RankedPath& b) {
    return a.probability > b.probability;
  });
  return paths;
}

// The ranks on the path to `node`. REQUIRES: the tokens of the tree are candidates.
inline std::vector<int> RanksOf(const Marginals& marginals, const DraftTree& tree, NodeIndex node) {
  std::vector<int> ranks(static_cast<size_t>(tree.depth(node)));
  for (; node != 0; node = tree.parent(node)) {
    int& rank = ranks[static_cast<size_t>(tree.depth(node)) - 1];
    while (marginals.token(tree.depth(node) - 1, rank) != tree.token(node)) ++rank;
  }
  return ranks;
}

// The walk of the selector: at each position, the candidate with the highest sum of log-probability
// and pair score after the one before it.
inline std::vector<TokenId> SelectorWalk(const Marginals& marginals) {
  std::vector<TokenId> walk;
  int previous = 0;
  for (int position = 0; position < marginals.positions; ++position) {
    int best = 0;
    const auto sum = [&](int rank) {
      return marginals.log_prob(position, rank) + marginals.pair_row(position, previous)[rank];
    };
    for (int rank = 1; rank < marginals.candidates; ++rank) {
      if (sum(rank) > sum(best)) best = rank;
    }
    if (std::isinf(sum(best))) break;
    walk.push_back(marginals.token(position, best));
    previous = best;
  }
  return walk;
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_PAIR_REFERENCE_H_
