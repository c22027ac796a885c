#include "orchestrator/tree/beam.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/base/check.h"

namespace bastion {
namespace {

struct Prefix {
  NodeIndex node;
  double log_score;
};

struct Extension {
  NodeIndex parent;
  TokenId token;
  double log_score;
};

// The `width` best one-token extensions of the kept prefixes, best first.
std::vector<Extension> BestExtensions(const std::vector<Prefix>& kept, const DraftTree& tree,
                                      const Candidates& candidates, int width) {
  std::vector<Extension> extensions;
  for (const Prefix& prefix : kept) {
    const CandidateList list = candidates.After(tree, prefix.node);
    // A parent's candidates are sorted by score, so ranks beyond the width are never kept.
    for (int rank = 0; rank < std::min(width, list.size); ++rank) {
      const double log_score = prefix.log_score + static_cast<double>(list.log_scores[rank]);
      if (std::isinf(log_score)) break;
      extensions.push_back({prefix.node, list.tokens[rank], log_score});
    }
  }
  std::stable_sort(
      extensions.begin(), extensions.end(),
      [](const Extension& a, const Extension& b) { return a.log_score > b.log_score; });
  if (extensions.size() > static_cast<size_t>(width)) extensions.resize(width);
  return extensions;
}

}  // namespace

DraftTree GrowBeam(TokenId root, const Candidates& candidates, int width, int depth) {
  CHECK_GE(width, 1);
  DraftTree tree(root);
  std::vector<Prefix> kept = {{0, 0.0}};
  for (int level = 0; level < std::min(depth, candidates.max_depth()); ++level) {
    const std::vector<Extension> best = BestExtensions(kept, tree, candidates, width);
    kept.clear();
    for (const Extension& extension : best) {
      const NodeIndex node =
          tree.Add(extension.parent, extension.token, static_cast<float>(extension.log_score));
      kept.push_back({node, extension.log_score});
    }
  }
  return tree;
}

}  // namespace bastion
