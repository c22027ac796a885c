// Sharpness: how surely the target picks what a coupled draft ranks first, learned from outcomes.
//
// A coupled draft ranks each position's tokens by s(x) = log softmax(log q/T + g), with the very
// noise g that the target chooses with. What the target will pick given all s is taken to be
//
//   P(x) = softmax(β_d · s)(x)
//
// over the candidates, with a sharpness β_d for every depth d: large where drafter and target
// agree, small where they do not. β_d starts at 1 (right for a drafter whose error is itself like
// Gumbel noise) and follows the outcomes by online Newton steps on log P: the gradient is s(picked)
// − E[s], the curvature Var[s]; the sum of these fades over about 256 cycles.
//
// Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_BUDGET_SHARPNESS_H_
#define BASTION_ORCHESTRATOR_BUDGET_SHARPNESS_H_

#include <array>

#include "common/tree/draft_tree.h"
#include "common/tree/marginals.h"
#include "common/tree/stage_data.h"

namespace bastion {

class Sharpness {
 public:
  static constexpr int kMaxDepth = 32;  // Deeper positions share the last one's.
  static constexpr double kMemory = 1 - 1.0 / 256;
  static constexpr double kPriorCurvature = 16;
  static constexpr double kLeast = 0.25;
  static constexpr double kMost = 4;

  // β of the nodes at `depth`. REQUIRES: depth >= 1.
  [[nodiscard]] double At(int depth) const { return beta_[Cell(depth)]; }

  // `coupled` with P(x) for log-probabilities.
  [[nodiscard]] Marginals Applied(Marginals coupled) const;

  // Learns from what the target picked at every depth that the walk over `tree` reached. `coupled`
  // is the draft as it came.
  void Observe(const Marginals& coupled, const DraftTree& tree, const Acceptance& acceptance);

 private:
  [[nodiscard]] static int Cell(int depth);
  void Learn(const Marginals& coupled, int position, TokenId picked);

  std::array<double, kMaxDepth> beta_ = [] {
    std::array<double, kMaxDepth> ones;
    ones.fill(1.0);
    return ones;
  }();
  std::array<double, kMaxDepth> curvature_{};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BUDGET_SHARPNESS_H_
