// NodeOracle: an autoregressive drafter as a function. The marginals of a node are drawn from a
// random generator whose seed is a hash of the node's path, so they do not depend on the order of
// the calls. Header-only. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_NODE_ORACLE_H_
#define BASTION_TESTS_SUPPORT_NODE_ORACLE_H_

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "common/stages/marginals.h"
#include "orchestrator/tree/cycle_draft.h"
#include "tests/support/random_marginals.h"

namespace bastion::testing {

class NodeOracle {
 public:
  // `candidates` per node. A larger `sharpness` makes the first candidates more probable.
  NodeOracle(uint32_t seed, int candidates, double sharpness = 4)
      : seed_(seed), candidates_(candidates), sharpness_(sharpness) {}

  [[nodiscard]] Marginals At(const TreePath& path) const {
    uint64_t hash = seed_;
    for (const TokenId token : path) {
      hash = hash * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(token) + 1;
      hash ^= hash >> 29;
    }
    std::mt19937 random(static_cast<uint32_t>(hash ^ hash >> 32));
    return RandomMarginals(random, 1, candidates_, EdgeCase::kNone, sharpness_);
  }
  // The same as tokens and probabilities.
  [[nodiscard]] std::vector<std::pair<TokenId, double>> Step(const TreePath& path) const {
    const Marginals marginals = At(path);
    std::vector<std::pair<TokenId, double>> candidates;
    for (int rank = 0; rank < marginals.candidates; ++rank) {
      candidates.emplace_back(marginals.token(0, rank),
                              std::exp(double{marginals.log_prob(0, rank)}));
    }
    return candidates;
  }
  // A draft in which every node down to `depth` levels is expanded.
  [[nodiscard]] CycleDraft Full(int depth) const {
    CycleDraft draft;
    draft.set_expands_nodes(true);
    Expand({}, depth, draft);
    return draft;
  }

 private:
  void Expand(const TreePath& path, int depth, CycleDraft& draft) const {
    if (depth == 0) return;
    const Marginals marginals = At(path);
    draft.Add(path, marginals);
    for (const TokenId token : marginals.tokens) {
      TreePath child = path;
      child.push_back(token);
      Expand(child, depth - 1, draft);
    }
  }

  const uint32_t seed_;
  const int candidates_;
  const double sharpness_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_NODE_ORACLE_H_
