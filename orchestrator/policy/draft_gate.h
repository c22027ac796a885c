// DraftGate: decides before drafting whether to draft at all. This is what keeps speculation from
// ever being slower than plain decoding.
//
// It counts in plain decode steps. A drafted cycle brings the tokens that it committed and costs
// the time that it took, so its gain is committed − T_cycle / L_AR.
//   - The level is the sum of gains, kept within [−4, 16]. While it is positive, every cycle
//   drafts; so a drafter that loses time loses at most the level before it is switched off (this is
//   a CUSUM test).
//   - Below, drafts are trials out of an allowance. Every plain step adds 4^level to it, every
//   trial adds its gain, and there is a trial whenever it is positive: all trials together never
//   lose more than the allowance. It begins at a whole step per step, so a drafter that had only
//   bad luck is tried again at once, and falls with what the trials lose, down to 1/256 (0.4 per
//   cent of the time), for a drafter that is useless; trials that gain pay for the next ones.
// To learn that a drafter is useless costs about start − lowest = 6 plain steps, once.
// Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_DRAFT_GATE_H_
#define BASTION_ORCHESTRATOR_POLICY_DRAFT_GATE_H_

#include <algorithm>
#include <cmath>

namespace bastion {

class DraftGate {
 public:
  static constexpr double kHighestLevel = 16;
  static constexpr double kStartLevel = 2;    // Of a drafter that nobody knows yet.
  static constexpr double kTrustedLevel = 6;  // At most, of a new sequence after good ones.
  static constexpr double kLowestLevel = -4;
  static constexpr double kLargestLoss = 8;  // In the level: one hanging draft is not the end.

  // True when the next cycle should draft.
  [[nodiscard]] bool open() const { return level_ > 0 || allowance_ > 0; }

  // What a plain step at `level` adds to the allowance, in plain steps.
  [[nodiscard]] static double TrialRate(double level) { return std::exp2(2 * level); }

  // A cycle that drafted: tokens committed, and its time and that of a plain step in any one unit.
  // REQUIRES: plain_time > 0.
  void ObserveDrafted(double committed, double cycle_time, double plain_time) {
    const double gain = committed - cycle_time / plain_time;
    if (level_ <= 0) allowance_ += gain;
    level_ = std::clamp(level_ + std::max(gain, -kLargestLoss), kLowestLevel, kHighestLevel);
    if (level_ > 0) allowance_ = 0;
  }

  // A plain step that this gate was the reason of.
  void ObservePlain() {
    if (!open()) allowance_ += TrialRate(level_);
  }

  // For a new sequence after those that this gate has seen: as far down, less far up. What good
  // ones gained buys the new one more than kStartLevel of bad luck before it is given up.
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
