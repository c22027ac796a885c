// The historical adjustment of DynaTree as its authors ran it: their code adjusts once per
// generation, by a sliding window over generations (the paper announces a schedule and does not
// print it). The parameters are shared by all requests of a policy.
//
// Before a generation, the mean acceptance of the last kWindow generations is taken, if there are
// at least kFewest. Acceptance: the committed tokens of all cycles, divided by what trees of the
// initial D_0 could commit. Above kHigh, D_0 becomes one larger and the thresholds kStep smaller;
// below kLow, the reverse.
//
// A generation that still runs counts with its cycles so far. The authors run one at a time.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_DYNATREE_HISTORY_H_
#define BASTION_ORCHESTRATOR_POLICY_DYNATREE_HISTORY_H_

#include <deque>
#include <memory>

namespace bastion {

// The parameters that are adjusted.
struct DynaTreeLevels {
  int base_depth = 5;  // D_0. The authors compare it with the depth of the children below u0.
  double high = 0.9;   // τ_h
  double deep = 0.5;   // ρ_deep

  friend bool operator==(const DynaTreeLevels&, const DynaTreeLevels&) = default;
};

class DynaTreeHistory {
 public:
  static constexpr int kWindow = 10, kFewest = 5;
  static constexpr double kHigh = 0.8, kLow = 0.6, kStep = 0.05;

  struct Generation {
    int cycles = 0;
    int committed = 0;  // Tokens.
  };

  // `max_depth` is D_max.
  DynaTreeHistory(const DynaTreeLevels& levels, int max_depth)
      : levels_(levels), tree_tokens_(levels.base_depth + 1), max_depth_(max_depth) {}

  // Adjusts the levels by the generations before, and begins one. The caller counts its cycles.
  [[nodiscard]] std::shared_ptr<Generation> Begin();
  [[nodiscard]] const DynaTreeLevels& levels() const { return levels_; }

 private:
  DynaTreeLevels levels_;
  const int tree_tokens_;  // What a tree of the initial D_0 could commit.
  const int max_depth_;
  std::deque<std::shared_ptr<Generation>> window_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_DYNATREE_HISTORY_H_
