// NodeOracle: a drafter that expands nodes, as a function. The marginals of a node are drawn from a
// random generator whose seed is a hash of the node's path, so they do not depend on the order of
// the calls. With one position it is an autoregressive drafter, with several a SpecBlock drafter:
// its blocks have buckets, and nearby blocks predict the same tokens. Header-only.
// Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_NODE_ORACLE_H_
#define BASTION_TESTS_SUPPORT_NODE_ORACLE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
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
  NodeOracle(uint32_t seed, int candidates, double sharpness = 4, int positions = 1,
             EdgeCase edge_case = EdgeCase::kNone)
      : seed_(seed),
        candidates_(candidates),
        sharpness_(sharpness),
        positions_(positions),
        edge_case_(edge_case) {}

  [[nodiscard]] Marginals At(const TreePath& path) const {
    uint64_t hash = seed_;
    for (const TokenId token : path) {
      hash = hash * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(token) + 1;
      hash ^= hash >> 29;
    }
    std::mt19937 random(static_cast<uint32_t>(hash ^ hash >> 32));
    Marginals marginals = RandomMarginals(random, positions_, candidates_, edge_case_, sharpness_);
    if (positions_ == 1) return marginals;
    for (int position = 0; position < positions_; ++position) {
      // The tokens of a position are a few in a row, in any order.
      const auto first = marginals.tokens.begin() + int64_t{position} * candidates_;
      const auto lowest = static_cast<TokenId>(random() % 3);
      for (int rank = 0; rank < candidates_; ++rank) first[rank] = lowest + rank;
      std::shuffle(first, first + candidates_, random);
      marginals.buckets.push_back(static_cast<uint8_t>(random() % kRankBuckets));
    }
    return marginals;
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
  // The candidates after `path` in the block of its first `start` tokens: those of position
  // path.size() − start, if the tokens between have rank 1 in that block. Else none.
  [[nodiscard]] std::vector<std::pair<TokenId, double>> InBlock(const TreePath& path, size_t start,
                                                                int* bucket) const {
    const Marginals marginals = At({path.begin(), path.begin() + static_cast<int64_t>(start)});
    const size_t position = path.size() - start;
    if (position >= static_cast<size_t>(marginals.positions)) return {};
    for (size_t i = 0; i < position; ++i) {
      if (marginals.tokens[i * marginals.candidates] != path[start + i]) return {};
    }
    std::vector<std::pair<TokenId, double>> candidates;
    for (int i = 0; i < marginals.candidates; ++i) {
      const size_t at = position * marginals.candidates + i;
      candidates.emplace_back(marginals.tokens[at], double{marginals.log_probs[at]});
    }
    *bucket = marginals.buckets.empty() ? -1 : marginals.buckets[position];
    return candidates;
  }
  // The `count` nodes with the best path scores, best first, if only the nodes that no block
  // reaches start blocks of their own.
  [[nodiscard]] std::vector<TreePath> BestPaths(int count) const {
    std::vector<std::pair<double, TreePath>> open = {{0.0, {}}};
    std::vector<TreePath> best;
    while (static_cast<int>(best.size()) <= count && !open.empty()) {
      const auto next = std::max_element(
          open.begin(), open.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      const auto [score, path] = *next;
      open.erase(next);
      best.push_back(path);
      int bucket = 0;
      for (const auto& [token, log_prob] : InBlock(path, StartOf(path), &bucket)) {
        open.emplace_back(score + log_prob, path);
        open.back().second.push_back(token);
      }
    }
    best.erase(best.begin());  // The root.
    return best;
  }
  // A draft in which every node down to `depth` levels is expanded.
  [[nodiscard]] CycleDraft Full(int depth) const {
    CycleDraft draft;
    draft.set_expands_nodes(true);
    Expand({}, depth, draft);
    return draft;
  }

 private:
  // The length of the path of the start whose block reaches `path`.
  [[nodiscard]] size_t StartOf(const TreePath& path) const {
    int bucket = 0;
    size_t start = 0;
    for (size_t length = 1; length <= path.size(); ++length) {
      const TreePath node(path.begin(), path.begin() + static_cast<int64_t>(length));
      if (InBlock(node, start, &bucket).empty()) start = length;
    }
    return start;
  }
  void Expand(const TreePath& path, int depth, CycleDraft& draft) const {
    if (depth == 0) return;
    const Marginals marginals = At(path);
    draft.Add(path, marginals);
    for (int rank = 0; rank < marginals.candidates; ++rank) {
      TreePath child = path;
      child.push_back(marginals.token(0, rank));
      Expand(child, depth - 1, draft);
    }
  }

  const uint32_t seed_;
  const int candidates_;
  const double sharpness_;
  const int positions_;
  const EdgeCase edge_case_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_NODE_ORACLE_H_
