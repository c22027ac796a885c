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
  int rank;
  double log_score;
};

// The `width` best extensions of the kept prefixes by a token of `position`, best first.
std::vector<Extension> BestExtensions(const std::vector<Prefix>& kept,
                                      const CandidateScores& scores, int position, int width) {
  std::vector<Extension> extensions;
  // Within one parent scores fall with rank: no rank beyond the width can be kept.
  const int ranks = std::min(width, scores.candidates);
  extensions.reserve(kept.size() * ranks);
  for (const Prefix& prefix : kept) {
    for (int rank = 0; rank < ranks; ++rank) {
      const double log_score =
          prefix.log_score + static_cast<double>(scores.log_score(position, rank));
      if (std::isinf(log_score)) break;
      extensions.push_back({prefix.node, rank, log_score});
    }
  }
  std::stable_sort(
      extensions.begin(), extensions.end(),
      [](const Extension& a, const Extension& b) { return a.log_score > b.log_score; });
  if (extensions.size() > static_cast<size_t>(width)) extensions.resize(width);
  return extensions;
}

}  // namespace

DraftTree GrowBeam(TokenId root, const CandidateScores& scores, int width, int depth) {
  CHECK_GE(width, 1);
  DraftTree tree(root);
  std::vector<Prefix> kept = {{0, 0.0}};
  for (int position = 0; position < std::min(depth, scores.positions); ++position) {
    const std::vector<Extension> level = BestExtensions(kept, scores, position, width);
    kept.clear();
    for (const Extension& extension : level) {
      const NodeIndex node = tree.Add(extension.parent, scores.token(position, extension.rank),
                                      static_cast<float>(extension.log_score));
      kept.push_back({node, extension.log_score});
    }
  }
  return tree;
}

}  // namespace bastion
