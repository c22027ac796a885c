#include "orchestrator/tree/beam.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <vector>

#include "common/base/check.h"

namespace bastion {
namespace {

struct Prefix {
  NodeIndex node;
  double log_score;
};

// The next extension of one kept prefix.
struct Extension {
  size_t prefix;  // Its index among the kept ones, best first.
  int rank;
  double log_score;
};

// The kept prefixes of a level with their candidates.
class Level {
 public:
  Level(const std::vector<Prefix>& kept, const DraftTree& tree, Candidates& candidates)
      : kept_(kept) {
    for (const Prefix& prefix : kept) {
      lists_.push_back(candidates.After(tree, prefix.node));
      Offer(lists_.size() - 1, 0);
    }
  }

  // Adds up to `count` of the best extensions to `tree`, best first, and returns them.
  std::vector<Prefix> Extend(int count, DraftTree& tree) {
    std::vector<Prefix> extended;
    while (static_cast<int>(extended.size()) < count && !next_.empty()) {
      const Extension best = next_.top();
      next_.pop();
      const NodeIndex node =
          tree.Add(kept_[best.prefix].node, lists_[best.prefix].tokens[best.rank],
                   static_cast<float>(best.log_score));
      extended.push_back({node, best.log_score});
      Offer(best.prefix, best.rank + 1);
    }
    return extended;
  }

 private:
  struct Worse {
    bool operator()(const Extension& a, const Extension& b) const {
      if (a.log_score != b.log_score) return a.log_score < b.log_score;
      return a.prefix != b.prefix ? a.prefix > b.prefix : a.rank > b.rank;
    }
  };

  // A prefix's candidates are sorted by score, so only its next one competes with those of others.
  void Offer(size_t prefix, int rank) {
    const CandidateList& list = lists_[prefix];
    if (rank >= list.size) return;
    const double log_score = kept_[prefix].log_score + static_cast<double>(list.log_scores[rank]);
    if (!std::isinf(log_score)) next_.push({prefix, rank, log_score});
  }

  const std::vector<Prefix>& kept_;
  std::vector<CandidateList> lists_;
  std::priority_queue<Extension, std::vector<Extension>, Worse> next_;
};

}  // namespace

DraftTree GrowBeam(TokenId root, Candidates& candidates, int width, int depth, int max_nodes) {
  CHECK_GE(width, 1);
  DraftTree tree(root);
  std::vector<Prefix> kept = {{0, 0.0}};
  for (int level = 0; level < std::min(depth, candidates.max_depth()); ++level) {
    const int room = std::min(width, max_nodes - tree.nodes());
    if (room <= 0 || kept.empty()) break;
    kept = Level(kept, tree, candidates).Extend(room, tree);
  }
  return tree;
}

}  // namespace bastion
