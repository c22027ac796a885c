// SteadyPlain: how long plain decoding really takes.
//
// While speculation pays, verify calls have trees, and the estimators know the cost of roots alone
// only from profile and from the neighbors of these calls. If they overestimate it, speculation
// looks cheap, and no call ever shows otherwise. So the planner tries plain decoding now and then,
// for a few cycles in a row (rest_schedule.h): caches and clock frequencies adapt to the size of
// the calls, and the first plain call after larger ones is not typical. This class compares such
// calls with their predictions, by octave of the number of sequences. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_STEADY_PLAIN_H_
#define BASTION_ORCHESTRATOR_COST_STEADY_PLAIN_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace bastion {

class SteadyPlain {
 public:
  // Measured time of a plain call that follows a plain call / predicted time. 1 if the two differ
  // by no more than noise, or if the measured time is larger: then plain decoding looks cheap, is
  // chosen, and the estimators learn its cost themselves.
  [[nodiscard]] double factor(int sequences) const {
    return std::exp(std::min(0.0, CellOf(sequences).log_factor + kNoise));
  }
  // True if such a call with about this many sequences has been observed.
  [[nodiscard]] bool known(int sequences) const { return CellOf(sequences).observations > 0; }

  // Records a plain call that follows a plain call. REQUIRES: sequences >= 1, both times > 0.
  void Observe(int sequences, double predicted, double observed) {
    Cell& cell = cells_[Octave(sequences)];
    // One stall must not change much.
    const double error = std::log(std::clamp(observed / predicted, 0.5, 2.0)) - cell.log_factor;
    cell.log_factor += error / std::min(++cell.observations, kMemory);
  }

 private:
  static constexpr int kMemory = 32;
  static constexpr double kNoise = 0.01;
  struct Cell {
    double log_factor = 0;
    int observations = 0;
  };

  [[nodiscard]] static size_t Octave(int sequences) {
    return std::bit_width(static_cast<unsigned>(sequences)) - 1;
  }
  [[nodiscard]] const Cell& CellOf(int sequences) const { return cells_[Octave(sequences)]; }

  std::array<Cell, 31> cells_{};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_STEADY_PLAIN_H_
