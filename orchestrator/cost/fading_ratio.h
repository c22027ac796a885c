// FadingRatio: the ratio of two sums over past events in which older events count less and less.
// Plain data.
#ifndef BASTION_ORCHESTRATOR_COST_FADING_RATIO_H_
#define BASTION_ORCHESTRATOR_COST_FADING_RATIO_H_

namespace bastion {

struct FadingRatio {
  double top = 0;
  double bottom = 0;

  // Adds an event. Both sums keep 1 − 1/memory of what they were, so about `memory` events count.
  // REQUIRES: memory >= 1.
  void Add(double new_top, double new_bottom, double memory) {
    const double kept = 1 - 1 / memory;
    top = kept * top + new_top;
    bottom = kept * bottom + new_bottom;
  }

  // REQUIRES: bottom > 0.
  [[nodiscard]] double value() const { return top / bottom; }
  // The ratio, drawn toward 1 by `pseudo`, which is added to both sums. REQUIRES: pseudo > 0.
  [[nodiscard]] double Shrunk(double pseudo) const { return (top + pseudo) / (bottom + pseudo); }
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_FADING_RATIO_H_
