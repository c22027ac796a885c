// Pace: tokens per second over the recent cycles, in predicted time. It is the price of time: a
// node that takes Δt is worth its cost if it yields more tokens than decoding at this pace yields
// in Δt. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_PACE_H_
#define BASTION_ORCHESTRATOR_POLICY_PACE_H_

namespace bastion {

class Pace {
 public:
  static constexpr double kMemory = 1 - 1.0 / 32;  // Decay per cycle.

  // REQUIRES: seconds > 0.
  void Observe(double tokens, double seconds) {
    tokens_ = kMemory * tokens_ + tokens;
    seconds_ = kMemory * seconds_ + seconds;
  }

  // 0 before the first observation.
  [[nodiscard]] double tokens_per_second() const { return seconds_ > 0 ? tokens_ / seconds_ : 0; }

 private:
  double tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_PACE_H_
