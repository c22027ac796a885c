#include "tests/support/dynatree_reference.h"

#include <cmath>
#include <deque>

namespace bastion::testing {

std::vector<std::vector<TokenId>> DynaTreeReference(const DraftStep& step,
                                                    const DynaTreeArguments& args, int* steps) {
  struct Node {
    std::vector<TokenId> path;
    double log_probability;
    int depth;
  };
  int unused = 0;
  int& runs = steps == nullptr ? unused : *steps;
  std::vector<std::vector<TokenId>> tree;
  // 10: run M_D; let u_0 be the top-1 token; initialize T with root u_0.
  const auto first = step({});
  ++runs;
  if (first.empty() || args.n_max < 1) return tree;
  tree.push_back({first[0].first});
  // 11: A <- {u_0}
  std::deque<Node> active = {{tree[0], std::log(first[0].second), 0}};
  // 12: while |A| > 0 and |T| < N_max
  while (!active.empty() && static_cast<int>(tree.size()) < args.n_max) {
    // 13: pop an element u
    const Node u = active.front();
    active.pop_front();
    // 14-16
    if (std::exp(u.log_probability) < args.tau) continue;
    // 17-19
    if (u.depth >= args.d_max) continue;
    // 20-22
    if (std::exp(u.log_probability) < args.rho_stop) continue;
    // 23-25
    if (u.depth >= args.d_0 && std::exp(u.log_probability) < args.rho_deep) continue;
    // 26: one cached step of M_D from u; confidence c(u)
    const auto candidates = step(u.path);
    ++runs;
    if (candidates.empty()) continue;
    const double confidence = candidates[0].second;
    // 27
    int branches = args.b_mid;
    if (confidence >= args.tau_h) branches = args.b_min;
    if (confidence < args.tau_l) branches = args.b_max;
    // 28
    for (int rank = 0; rank < branches && rank < static_cast<int>(candidates.size()); ++rank) {
      if (static_cast<int>(tree.size()) >= args.n_max) break;
      Node v = {u.path, u.log_probability + std::log(candidates[rank].second), u.depth + 1};
      v.path.push_back(candidates[rank].first);
      tree.push_back(v.path);
      active.push_back(std::move(v));
    }
  }
  return tree;
}

std::vector<std::vector<TokenId>> DynaTreeAuthorsReference(const DraftStep& step,
                                                           const DynaTreeArguments& args,
                                                           int phase) {
  using Leaf = std::pair<std::vector<TokenId>, double>;  // A path and its log-probability.
  std::vector<std::vector<TokenId>> tree;
  const auto first = step({});
  if (first.empty()) return tree;
  tree.push_back({first[0].first});
  std::vector<Leaf> leaves = {{tree[0], std::log(first[0].second)}};
  for (int depth = 1; !leaves.empty() && static_cast<int>(tree.size()) < args.n_max; ++depth) {
    if (phase == 1 && depth > args.d_0) break;
    std::vector<Leaf> below;
    for (const auto& [path, score] : leaves) {
      const double probability = std::exp(score);
      if (probability < args.tau) continue;
      if (phase > 1) {
        if (probability < args.rho_stop || depth >= args.d_max) continue;
        if (depth >= args.d_0 && !(probability > args.rho_deep)) continue;
      }
      const auto next = step(path);
      if (next.empty()) continue;
      const int branches = next[0].second > args.tau_h   ? args.b_min
                           : next[0].second < args.tau_l ? args.b_max
                                                         : args.b_mid;
      for (int i = 0; i < branches && i < static_cast<int>(next.size()); ++i) {
        if (static_cast<int>(tree.size()) >= args.n_max) break;
        tree.push_back(path);
        tree.back().push_back(next[i].first);
        below.emplace_back(tree.back(), score + std::log(next[i].second));
      }
    }
    leaves = std::move(below);
  }
  return tree;
}

}  // namespace bastion::testing
