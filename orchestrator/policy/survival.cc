#include "orchestrator/policy/survival.h"

#include <algorithm>
#include <cmath>

namespace bastion {
namespace {

// The drafter's probability of a node's token, given its parent.
double TokenProbability(const DraftTree& tree, NodeIndex node) {
  return std::exp(static_cast<double>(tree.log_score(node)) -
                  static_cast<double>(tree.log_score(tree.parent(node))));
}

}  // namespace

std::vector<PathKind> PathKinds(const DraftTree& tree) {
  std::vector<PathKind> kinds(tree.rows(), PathKind::kBeyond);
  kinds[0] = PathKind::kSpine;
  NodeIndex tip = 0;
  for (NodeIndex i = 1; i < tree.rows(); ++i) {
    if (tree.parent(i) == tip) {
      kinds[i] = PathKind::kSpine;
      tip = i;
    } else if (kinds[tree.parent(i)] == PathKind::kSpine) {
      kinds[i] = PathKind::kSibling;
    }
  }
  return kinds;
}

int Survival::Cell(PathKind kind, int depth) {
  return static_cast<int>(kind) * (kMaxDepth + 1) + std::min(depth, kMaxDepth);
}

std::vector<double> Survival::AcceptanceProbabilities(const DraftTree& tree) const {
  const std::vector<PathKind> kinds = PathKinds(tree);
  std::vector<double> values(tree.rows());
  values[0] = 1;
  for (NodeIndex i = 1; i < tree.rows(); ++i) {
    const double chance = TokenProbability(tree, i) * Factor(kinds[i], tree.depth(i));
    values[i] = values[tree.parent(i)] * std::min(1.0, chance);
  }
  return values;
}

void Survival::Observe(const DraftTree& tree, const DraftTree& spine,
                       const Acceptance& acceptance) {
  Fade(kMemory);
  const std::vector<PathKind> kinds = PathKinds(tree);
  std::vector<bool> accepted(tree.rows(), false);
  accepted[0] = true;
  for (const NodeIndex i : acceptance.path) accepted[i] = true;

  int spine_nodes = 0;     // Spine nodes in the tree.
  int spine_accepted = 0;  // Accepted spine nodes.
  for (NodeIndex i = 1; i < tree.rows(); ++i) {
    if (kinds[i] == PathKind::kSpine) {
      ++spine_nodes;
      spine_accepted += accepted[i] ? 1 : 0;
    }
    if (accepted[tree.parent(i)]) {
      Count(kinds[i], tree.depth(i), TokenProbability(tree, i), accepted[i]);
    }
  }
  // If all spine nodes of the tree were accepted, the target's next token also shows whether the
  // next node of `spine` was right.
  if (spine_accepted == spine_nodes && spine_nodes < spine.nodes()) {
    const NodeIndex beyond = spine_nodes + 1;
    Count(PathKind::kSpine, beyond, TokenProbability(spine, beyond),
          spine.token(beyond) == acceptance.next);
  }
  UpdateFactors();
}

void Survival::ObserveUnverified(const DraftTree& tree, const DraftTree& spine,
                                 absl::Span<const TokenId> chosen) {
  if (tree.nodes() == 0 && spine.nodes() == 0) return;
  const auto known = static_cast<int>(chosen.size());
  // The target's choice is unknown for deeper nodes, so they are left out.
  DraftTree judged(tree.token(0));
  std::vector<NodeIndex> index(tree.rows(), kNoNode);
  index[0] = 0;
  Acceptance acceptance;
  NodeIndex tip = 0;
  for (NodeIndex i = 1; i < tree.rows(); ++i) {
    if (tree.depth(i) > known) continue;
    index[i] = judged.Add(index[tree.parent(i)], tree.token(i), tree.log_score(i));
    if (index[tree.parent(i)] != tip || tree.token(i) != chosen[tree.depth(i) - 1]) continue;
    tip = index[i];
    acceptance.path.push_back(tip);
  }
  const size_t accepted = acceptance.path.size();
  acceptance.next = accepted < chosen.size() ? chosen[accepted] : kNoToken;
  DraftTree known_spine = spine;
  known_spine.Truncate(std::min(spine.nodes(), known));
  Observe(judged, known_spine, acceptance);
}

void Survival::ObserveNoDraft() {
  if (++unfaded_cycles_ < kFadeBatch) return;  // Batching keeps most plain steps cheap.
  unfaded_cycles_ = 0;
  Fade(std::pow(kMemory, kFadeBatch));
  UpdateFactors();
}

void Survival::Fade(double kept) {
  for (double& mass : accepted_) mass *= kept;
  for (double& mass : predicted_) mass *= kept;
}

void Survival::Count(PathKind kind, int depth, double predicted, bool accepted) {
  predicted_[Cell(kind, depth)] += predicted;
  accepted_[Cell(kind, depth)] += accepted ? 1 : 0;
}

void Survival::UpdateFactors() {
  for (const PathKind kind : {PathKind::kSpine, PathKind::kSibling, PathKind::kBeyond}) {
    for (int depth = 1; depth <= kMaxDepth; ++depth) {
      const int cell = Cell(kind, depth);
      const double above = depth == 1 ? 1.0 : factors_[cell - 1];
      const double ratio =
          (accepted_[cell] + kInitialMass * above) / (predicted_[cell] + kInitialMass);
      factors_[cell] = std::clamp(ratio, kMinFactor, kMaxFactor);
    }
  }
}

}  // namespace bastion
