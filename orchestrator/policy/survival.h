// Survival: calibrates the drafter's probabilities with the observed acceptance.
//
// A drafter is overconfident or underconfident, depending on the depth and the kind of path.
// Marginals of independent positions are right on the most probable path, too low for siblings of
// nodes on it, and too high below those siblings. For every kind of node (PathKind) and every depth
// d, Survival looks at the nodes whose parent was accepted; for other nodes the target's choice is
// unknown. accepted(d) is the number of these nodes that were accepted, and predicted(d) is the sum
// of the drafter's probabilities of all of them. Both decay over about 64 cycles:
//
//   factor(d) = (accepted(d) + m·factor(d−1)) / (predicted(d) + m),   factor(0) = 1,  m = 1
//
// The factor starts at 1, and a depth without observations has the factor of the depth above. The
// acceptance probability of a path is the product of its tokens' probabilities times their factors.
// The spine (the path of top-1 tokens) is observed one depth beyond the tree, because the target's
// next token is known there too. So even a tree of the root alone shows whether the drafter would
// have been right. Copyable (a few hundred numbers). Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_SURVIVAL_H_
#define BASTION_ORCHESTRATOR_POLICY_SURVIVAL_H_

#include <array>
#include <vector>

#include "absl/types/span.h"
#include "common/stages/draft_tree.h"
#include "common/stages/stage_data.h"

namespace bastion {

// The relation of a node to the spine (the path of top-1 tokens): on the spine, a sibling of a
// spine node, or below such a sibling.
enum class PathKind { kSpine, kSibling, kBeyond };

class Survival {
 public:
  static constexpr int kMaxDepth = 32;             // Deeper nodes use the factor of this depth.
  static constexpr double kMemory = 1 - 1.0 / 64;  // Decay per cycle.
  static constexpr int kFadeBatch = 16;
  static constexpr double kInitialMass = 1;  // m
  static constexpr double kMinFactor = 1.0 / 64;
  static constexpr double kMaxFactor = 8;

  // REQUIRES: depth >= 1.
  [[nodiscard]] double Factor(PathKind kind, int depth) const {
    return factors_[Cell(kind, depth)];
  }

  // [rows] The calibrated acceptance probability of every row: 1 for the root; for any other node,
  // the value of its parent times min(1, q·factor), where q is the drafter's probability of the
  // node's token. The sum of all values is the calibrated Â. REQUIRES: `tree` is a best-first tree
  // or a chain, so the first child of a node is its most probable child.
  [[nodiscard]] std::vector<double> AcceptanceProbabilities(const DraftTree& tree) const;

  // Learns from a verified tree. `spine` is the top-1 path of the same draft, and may be longer
  // than the tree. REQUIRES: `tree` as for AcceptanceProbabilities.
  void Observe(const DraftTree& tree, const DraftTree& spine, const Acceptance& acceptance);

  // Learns from a tree that was not verified. `chosen` contains the target's tokens after the root,
  // in order, known from verifying another tree. REQUIRES: `tree` as for AcceptanceProbabilities.
  void ObserveUnverified(const DraftTree& tree, const DraftTree& spine,
                         absl::Span<const TokenId> chosen);

  // Records a cycle without a draft. Old observations decay, so that the factors return to 1 in the
  // long run. The decay is applied every kFadeBatch calls.
  void ObserveNoDraft();

 private:
  static constexpr int kCells = 3 * (kMaxDepth + 1);
  [[nodiscard]] static int Cell(PathKind kind, int depth);
  void Fade(double kept);
  void Count(PathKind kind, int depth, double predicted, bool accepted);
  void UpdateFactors();

  int unfaded_cycles_ = 0;
  std::array<double, kCells> accepted_{};
  std::array<double, kCells> predicted_{};
  std::array<double, kCells> factors_ = [] {
    std::array<double, kCells> ones;
    ones.fill(1.0);
    return ones;
  }();
};

// [rows] The kind of every row; the root is kSpine. REQUIRES: `tree` as for
// Survival::AcceptanceProbabilities.
[[nodiscard]] std::vector<PathKind> PathKinds(const DraftTree& tree);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_SURVIVAL_H_
