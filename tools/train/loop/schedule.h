// The learning rate over a training run. Thread-safe: no state.
#ifndef BASTION_TOOLS_TRAIN_LOOP_SCHEDULE_H_
#define BASTION_TOOLS_TRAIN_LOOP_SCHEDULE_H_

namespace bastion::train {

// Fractions of a run, 0 to 1.
struct Schedule {
  double warm_up = 0.01;    // Until here, the rate rises linearly to its peak.
  double decay_from = 0.4;  // From here on, it falls linearly to 0.

  // The factor of the peak rate after the fraction `done` of the run.
  [[nodiscard]] double RateAt(double done) const {
    constexpr double kFirst = 1e-4;  // The first step also learns.
    if (done < warm_up) return (done < kFirst ? kFirst : done) / warm_up;
    if (done < decay_from) return 1;
    return done < 1 ? (1 - done) / (1 - decay_from) : 0;
  }
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_SCHEDULE_H_
