// DraftGate: decides before drafting whether to draft at all. It bounds the slowdown of speculation
// relative to plain decoding.
//
// The unit is L_AR, the duration of a plain decode step. A drafted cycle of duration T_cycle saves
// committed − T_cycle / L_AR steps; the saving is negative if the cycle lost time.
//   - The level is the sum of the savings, kept within [−4, 16]. While it is positive, every cycle
//     drafts. So a slow drafter loses little more than the current level before the gate closes (a
//     CUSUM test).
//   - While the level is not positive, the gate is closed except for trials. Trials have an
//     allowance: every plain step adds 4^level to it, every trial adds its saving, and a cycle is a
//     trial whenever the allowance is positive. So the trials together lose at most what the plain
//     steps added, plus the loss of the last trial. At level 0, each plain step adds a whole step,
//     so a drafter that only had bad luck is tried again immediately. For a useless drafter, the
//     level drops to −4. Then trials cost about 1/256 (0.4 percent) of the time. Trials that save
//     time pay for further trials.
// Finding out that a drafter is useless costs about kStartLevel − kLowestLevel = 6 plain steps,
// once. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_DRAFT_GATE_H_
#define BASTION_ORCHESTRATOR_POLICY_DRAFT_GATE_H_

#include <algorithm>
#include <cmath>

namespace bastion {

class DraftGate {
 public:
  static constexpr double kHighestLevel = 16;
  static constexpr double kStartLevel = 2;    // For a drafter without observations.
  static constexpr double kTrustedLevel = 6;  // Upper bound for new sequences (ForNewSequence).
  static constexpr double kLowestLevel = -4;
  // One cycle lowers the level by at most this, so that one stalled draft does not use up a high
  // level.
  static constexpr double kLargestLoss = 8;

  // True if the next cycle should draft.
  [[nodiscard]] bool open() const { return level_ > 0 || allowance_ > 0; }

  // The amount that a plain step at `level` adds to the allowance, in plain steps.
  [[nodiscard]] static double TrialRate(double level) { return std::exp2(2 * level); }

  // Records a cycle that drafted and committed `committed` tokens. `cycle_time` is the duration of
  // the cycle and `plain_time` the duration of a plain decode step, both in the same unit.
  // REQUIRES: plain_time > 0.
  void ObserveDrafted(double committed, double cycle_time, double plain_time) {
    const double saving = committed - cycle_time / plain_time;
    if (level_ <= 0) allowance_ += saving;
    level_ = std::clamp(level_ + std::max(saving, -kLargestLoss), kLowestLevel, kHighestLevel);
    if (level_ > 0) allowance_ = 0;
  }

  // Records a cycle that did not draft because the gate was closed.
  void ObservePlain() {
    if (!open()) allowance_ += TrialRate(level_);
  }

  // The initial gate of a new sequence, if this gate has observed earlier sequences: it has the
  // same level, but at most kTrustedLevel.
  [[nodiscard]] DraftGate ForNewSequence() const {
    DraftGate gate = *this;
    gate.level_ = std::min(gate.level_, kTrustedLevel);
    return gate;
  }

  [[nodiscard]] double level() const { return level_; }

 private:
  double level_ = kStartLevel;
  double allowance_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_DRAFT_GATE_H_
