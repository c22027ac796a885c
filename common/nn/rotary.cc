#include "common/nn/rotary.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace bastion::nn {
namespace {

constexpr int64_t kPositionsPerTask = 64;

// `frequency` in radians per position, scaled as hub::Llama3Scaling says.
double Scaled(double frequency, const hub::Llama3Scaling& scaling) {
  constexpr double kTurn = 6.283185307179586;
  const double rotations = scaling.original_positions * frequency / kTurn;
  const double span = scaling.high_rotations - scaling.low_rotations;
  const double kept = std::clamp((rotations - scaling.low_rotations) / span, 0.0, 1.0);
  return frequency * (kept + (1 - kept) / scaling.factor);
}

std::vector<double> Frequencies(const hub::RopeConfig& rope) {
  std::vector<double> frequencies(rope.dims / 2);
  for (int i = 0; i < rope.dims / 2; ++i) {
    frequencies[i] = std::pow(rope.theta, -2.0 * i / rope.dims);
    if (rope.llama3.has_value()) frequencies[i] = Scaled(frequencies[i], *rope.llama3);
  }
  return frequencies;
}

}  // namespace

void FillRotaryTable(const hub::ModelConfig& config, kernels::ThreadPool& pool, float* table) {
  const std::vector<double> frequencies = Frequencies(config.blocks.rope);
  const int dims = config.blocks.rope.dims, half = dims / 2;
  pool.ParallelFor(config.max_positions, kPositionsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      for (int i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * frequencies[i];
        table[p * dims + i] = static_cast<float>(std::cos(angle));
        table[p * dims + half + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

}  // namespace bastion::nn
