// Draws: the random numbers of one training step. They are a function of the seed and the step, so
// a resumed run draws the same numbers. Not thread-safe.
#ifndef BASTION_TOOLS_TRAIN_MODELS_DRAWS_H_
#define BASTION_TOOLS_TRAIN_MODELS_DRAWS_H_

#include <cmath>
#include <cstdint>
#include <numbers>

#include "common/base/random.h"

namespace bastion::train {

class Draws {
 public:
  Draws(uint64_t seed, uint64_t step) : key_(PhiloxKeyOf(seed)), step_(step) {}

  // Uniform in [0, 1).
  [[nodiscard]] double Uniform() { return Word() / 4294967296.0; }
  // Uniform in [0, limit). REQUIRES: limit > 0.
  [[nodiscard]] int64_t Below(int64_t limit) { return static_cast<int64_t>(Uniform() * limit); }
  // A standard normal number (Box and Muller, 1958).
  [[nodiscard]] float Normal() {
    const double radius = std::sqrt(-2 * std::log(1 - Uniform()));
    return static_cast<float>(radius * std::cos(2 * std::numbers::pi * Uniform()));
  }

 private:
  uint32_t Word() {
    const PhiloxKey step = PhiloxKeyOf(step_);
    const PhiloxKey draw = PhiloxKeyOf(drawn_ / 4);
    if (drawn_ % 4 == 0) words_ = Philox4x32({draw[0], draw[1], step[0], step[1]}, key_);
    return words_[drawn_++ % 4];
  }

  const PhiloxKey key_;
  const uint64_t step_;
  uint64_t drawn_ = 0;
  PhiloxCounter words_ = {};
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_DRAWS_H_
