// Survival: how far the drafter's probabilities can be trusted, learned from what was accepted.
//
// A drafter is over- or under-confident, differently by depth and by kind of path: marginals of
// independent positions hold on the most probable path, are too low for its siblings and too high
// for what hangs below those. For every kind and depth d this keeps, over the nodes whose parent
// was accepted (else nobody knows), the ratio of accepted to predicted mass, both fading over about
// 64 cycles:
//
//   factor(d) = (accepted(d) + m·factor(d−1)) / (predicted(d) + m),   factor(0) = 1,  m = 1
//
// so that it starts at 1, and a depth without evidence behaves like the one above it. A path
// survives with the product of its tokens' probabilities times factors. The spine is observed one
// depth beyond the tree, because the target's next token is known there too: even a tree of the
// root alone teaches whether the drafter would have been right.
// Copyable, a few hundred numbers. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_SURVIVAL_H_
#define BASTION_ORCHESTRATOR_POLICY_SURVIVAL_H_

#include <array>
#include <vector>

#include "absl/types/span.h"
#include "common/stages/draft_tree.h"
#include "common/stages/stage_data.h"

namespace bastion {

// What a node is to the spine, the path of top-1 tokens: on it, a sibling of it, or below a
// sibling.
enum class PathKind { kSpine, kSibling, kBeyond };

class Survival {
 public:
  static constexpr int kMaxDepth = 32;  // Deeper nodes share the last one's factor.
  static constexpr double kMemory = 1 - 1.0 / 64;
  static constexpr int kForgetTogether = 16;
  static constexpr double kPriorMass = 1;
  static constexpr double kLeast = 1.0 / 64;
  static constexpr double kMost = 8;

  // REQUIRES: depth >= 1.
  [[nodiscard]] double Factor(PathKind kind, int depth) const {
    return factors_[Cell(kind, depth)];
  }

  // The calibrated chance of every row to be accepted: 1 for the root, and for a node its parent's
  // times min(1, q·factor), q being the drafter's probability of the node's token. Their sum is the
  // calibrated Â. REQUIRES: a best-first tree or a chain, where a node's first child is the most
  // probable one.
  [[nodiscard]] std::vector<double> Values(const DraftTree& tree) const;

  // Learns from a verified tree; `spine` is the top-1 path of the same draft to its full length.
  // REQUIRES of `tree`: as for Values.
  void Observe(const DraftTree& tree, const DraftTree& spine, const Acceptance& acceptance);

  // Learns from a tree that was not verified, by what another one settled: `settled` are the
  // target's tokens after the root, in order.
  void ObserveSettled(const DraftTree& tree, const DraftTree& spine,
                      absl::Span<const TokenId> settled);

  // A cycle without a draft: old evidence fades, so that one day the drafter is believed again. The
  // fading of kForgetTogether such cycles is done at once: a plain step should cost nothing here.
  void Forget();

 private:
  static constexpr int kCells = 3 * (kMaxDepth + 1);
  [[nodiscard]] static int Cell(PathKind kind, int depth);
  void Fade(double kept);
  void Count(PathKind kind, int depth, double predicted, bool accepted);
  void UpdateFactors();

  int to_forget_ = 0;
  std::array<double, kCells> accepted_{};
  std::array<double, kCells> predicted_{};
  std::array<double, kCells> factors_ = [] {
    std::array<double, kCells> ones;
    ones.fill(1.0);
    return ones;
  }();
};

// The kind of every row; the root's is kSpine. REQUIRES: as for Values.
[[nodiscard]] std::vector<PathKind> PathKinds(const DraftTree& tree);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_SURVIVAL_H_
