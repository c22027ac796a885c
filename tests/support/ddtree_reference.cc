#include "tests/support/ddtree_reference.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace bastion::testing {

double Sigma(const Marginals& marginals, const RankTuple& ranks) {
  double sigma = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    sigma += static_cast<double>(marginals.log_prob(static_cast<int>(i), ranks[i]));
  }
  return sigma;
}

std::vector<RankTuple> DdtreeRankTuples(const Marginals& marginals, int budget) {
  std::vector<RankTuple> taken;
  std::vector<RankTuple> open;  // The heap H of the paper, as a list in push order.
  const auto push = [&](const RankTuple& ranks) {
    if (std::isfinite(Sigma(marginals, ranks))) open.push_back(ranks);
  };
  if (marginals.positions > 0 && marginals.candidates > 0) push({0});
  while (static_cast<int>(taken.size()) < budget && !open.empty()) {
    size_t best = 0;
    for (size_t i = 1; i < open.size(); ++i) {
      if (Sigma(marginals, open[i]) > Sigma(marginals, open[best])) best = i;
    }
    const RankTuple popped = open[best];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(best));
    taken.push_back(popped);
    if (popped.back() + 1 < marginals.candidates) {
      RankTuple sibling = popped;
      ++sibling.back();
      push(sibling);
    }
    if (static_cast<int>(popped.size()) < marginals.positions) {
      RankTuple child = popped;
      child.push_back(0);
      push(child);
    }
  }
  return taken;
}

DraftTree DdtreeReference(TokenId root, const Marginals& marginals, int budget) {
  DraftTree tree(root);
  std::map<RankTuple, NodeIndex> node_of = {{RankTuple(), NodeIndex(0)}};
  for (const RankTuple& ranks : DdtreeRankTuples(marginals, budget)) {
    const RankTuple prefix(ranks.begin(), ranks.end() - 1);
    const TokenId token = marginals.token(static_cast<int>(prefix.size()), ranks.back());
    node_of[ranks] =
        tree.Add(node_of.at(prefix), token, static_cast<float>(Sigma(marginals, ranks)));
  }
  return tree;
}

std::vector<RankTuple> AllRankTuplesByProbability(const Marginals& marginals) {
  std::vector<RankTuple> all;
  std::vector<RankTuple> level = {{}};
  for (int position = 0; position < marginals.positions; ++position) {
    std::vector<RankTuple> next;
    for (const RankTuple& prefix : level) {
      for (int rank = 0; rank < marginals.candidates; ++rank) {
        RankTuple extended = prefix;
        extended.push_back(rank);
        if (std::isfinite(Sigma(marginals, extended))) next.push_back(extended);
      }
    }
    all.insert(all.end(), next.begin(), next.end());
    level = next;
  }
  std::stable_sort(all.begin(), all.end(), [&](const RankTuple& a, const RankTuple& b) {
    return Sigma(marginals, a) > Sigma(marginals, b);
  });
  return all;
}

}  // namespace bastion::testing
