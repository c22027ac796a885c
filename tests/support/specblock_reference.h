// Second implementations of the two algorithms of orchestrator/tree/specblock.h, over whole paths
// and without rounds. They share no code with orchestrator/tree. Header-only. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_SPECBLOCK_REFERENCE_H_
#define BASTION_TESTS_SUPPORT_SPECBLOCK_REFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "orchestrator/tree/specblock.h"
#include "tests/support/node_oracle.h"

namespace bastion::testing {

struct NaiveNode {
  TreePath path;
  double score;

  friend bool operator==(const NaiveNode&, const NaiveNode&) = default;
};

inline TreePath ChildPath(TreePath path, TokenId token) {
  path.push_back(token);
  return path;
}

inline int NaiveWidth(const SpecBlockShape& shape, int bucket) {
  if (shape.uniform != 0) return shape.uniform;
  return shape.map[bucket < 0 ? 1 : bucket];
}

// The released algorithm.
class NaiveReleased {
 public:
  NaiveReleased(const NodeOracle& oracle, const SpecBlockShape& shape) : oracle_(oracle) {
    std::vector<TreePath> starts = {{}};
    std::set<TreePath> started;
    int positions = 0;
    for (int round = 1; round <= shape.blocks; ++round) {
      std::set<TreePath> next;
      for (const TreePath& start : starts) {
        started.insert(start);
        const int slots = AddBlock(start, shape, &next);
        if (start.empty()) positions = std::max(1, slots);
      }
      for (const TreePath& path : started) next.erase(path);
      std::vector<std::pair<double, size_t>> order;
      for (const TreePath& path : next) order.emplace_back(-Score(path), IndexOf(path));
      std::sort(order.begin(), order.end());
      if (round > 1) {
        const int pool = static_cast<int>(entered_.size());
        const int beam = std::min(shape.starts, std::max(1, (shape.nodes - pool) / positions));
        if (static_cast<int>(order.size()) > beam) order.resize(beam);
      }
      starts.clear();
      for (const auto& [score, index] : order) starts.push_back(entered_[index]);
    }
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 0; i < entered_.size(); ++i) order.emplace_back(-Score(entered_[i]), i);
    std::sort(order.begin(), order.end());
    if (static_cast<int>(order.size()) > shape.nodes) order.resize(shape.nodes);
    for (const auto& [score, index] : order) best_.push_back({entered_[index], -score});
  }

  [[nodiscard]] const std::vector<NaiveNode>& best() const { return best_; }

 private:
  size_t IndexOf(const TreePath& path) const {
    return std::find(entered_.begin(), entered_.end(), path) - entered_.begin();
  }
  double Score(const TreePath& path) const {
    double score = 0;
    for (size_t length = 1; length <= path.size(); ++length) {
      score += edges_.at({path.begin(), path.begin() + static_cast<int64_t>(length)});
    }
    return score;
  }
  void Enter(const TreePath& path, double log_prob) {
    const auto [edge, added] = edges_.try_emplace(path, log_prob);
    if (added) entered_.push_back(path);
    edge->second = std::max(edge->second, log_prob);
  }
  // Returns the number of its slots.
  int AddBlock(const TreePath& start, const SpecBlockShape& shape, std::set<TreePath>* next) {
    struct Slot {
      TreePath parent;
      std::vector<std::pair<TokenId, double>> candidates;
      int width;
    };
    std::vector<Slot> slots;
    TreePath tip = start;
    for (;;) {
      int bucket = -1;
      auto candidates = oracle_.InBlock(tip, start.size(), &bucket);
      while (!candidates.empty() && std::isinf(candidates.back().second)) candidates.pop_back();
      if (candidates.empty()) break;
      const double p1 = std::exp(candidates[0].second);
      int width = NaiveWidth(shape, bucket);
      if (shape.uniform == 0 && start.empty() && slots.empty()) {
        width = p1 >= 0.9 ? 3 : p1 >= 0.8 ? 5 : p1 >= 0.6 ? 8 : 10;
      } else if (shape.uniform == 0) {
        width = std::min(width, p1 >= 0.95 ? 2 : p1 >= 0.85 ? 3 : 1000);
      }
      slots.push_back({tip, candidates, width});
      tip = ChildPath(tip, candidates[0].first);
      Enter(tip, candidates[0].second);
    }
    bool gave_up = false;
    for (const Slot& slot : slots) {
      gave_up = gave_up || slot.width == 0;
      if (gave_up || slot.width == 1) continue;
      for (int rank = 0; rank < std::min<int>(slot.width, slot.candidates.size()); ++rank) {
        const TreePath child = ChildPath(slot.parent, slot.candidates[rank].first);
        Enter(child, slot.candidates[rank].second);
        next->insert(child);
      }
    }
    if (!gave_up && !slots.empty()) next->insert(tip);
    return static_cast<int>(slots.size());
  }

  const NodeOracle& oracle_;
  std::map<TreePath, double> edges_;
  std::vector<TreePath> entered_;
  std::vector<NaiveNode> best_;
};

// The literal algorithm: the nodes in the order in which they are added.
inline std::vector<NaiveNode> NaiveLiteral(const NodeOracle& oracle, const SpecBlockShape& shape) {
  std::vector<NaiveNode> tree;
  std::vector<NaiveNode> starts = {{{}, 0}};
  for (int round = 1; round <= shape.blocks; ++round) {
    std::vector<NaiveNode> next;
    for (const NaiveNode& start : starts) {
      NaiveNode parent = start;
      bool cut = false;
      for (;;) {
        int bucket = -1;
        const auto candidates = oracle.InBlock(parent.path, start.path.size(), &bucket);
        if (candidates.empty()) break;
        const int width = std::min<int>(NaiveWidth(shape, bucket), candidates.size());
        std::vector<NaiveNode> children;
        for (int rank = 0; rank < width && std::isfinite(candidates[rank].second); ++rank) {
          if (static_cast<int>(tree.size()) == shape.nodes) return tree;
          children.push_back({ChildPath(parent.path, candidates[rank].first),
                              parent.score + candidates[rank].second});
          tree.push_back(children.back());
        }
        cut = children.empty();
        if (cut) break;
        const bool branches = bucket != 0 && bucket != 3;
        if (branches || shape.any_bucket || shape.uniform != 0) {
          next.insert(next.end(), children.begin() + 1, children.end());
        }
        parent = children[0];
      }
      if (!cut && parent.path != start.path) next.push_back(parent);
    }
    const auto index = [&tree](const NaiveNode& node) {
      return std::find(tree.begin(), tree.end(), node) - tree.begin();
    };
    std::sort(next.begin(), next.end(), [&](const NaiveNode& a, const NaiveNode& b) {
      return a.score != b.score ? a.score > b.score : index(a) < index(b);
    });
    if (static_cast<int>(next.size()) > shape.starts) next.resize(shape.starts);
    starts = next;
  }
  return tree;
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_SPECBLOCK_REFERENCE_H_
