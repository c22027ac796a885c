#include "engine/model/rotary.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace bastion::nn {
namespace {

constexpr int64_t kPositionsPerTask = 64;
constexpr double kTurn = 6.283185307179586;  // Radians.

// `frequency` in radians per position, scaled as hub::Llama3Scaling says.
double Scaled(double frequency, const hub::Llama3Scaling& scaling) {
  const double rotations = scaling.original_positions * frequency / kTurn;
  const double span = scaling.high_rotations - scaling.low_rotations;
  const double kept = std::clamp((rotations - scaling.low_rotations) / span, 0.0, 1.0);
  return frequency * (kept + (1 - kept) / scaling.factor);
}

// The pairs of elements at which the division of frequencies begins and ends to fade in.
struct Fade {
  double begin = 0;
  double end = 0;

  // How much of pair i keeps its frequency.
  [[nodiscard]] double Kept(int i) const {
    constexpr double kShortest = 0.001;  // As in `transformers`, if both ends are equal.
    const double length = begin == end ? kShortest : end - begin;
    return 1 - std::clamp((i - begin) / length, 0.0, 1.0);
  }
};

Fade FadeOf(const hub::RopeConfig& rope) {
  const hub::YarnScaling& yarn = *rope.yarn;
  const auto pair_of = [&](double rotations) {
    return rope.dims * std::log(yarn.original_positions / (rotations * kTurn)) /
           (2 * std::log(rope.theta));
  };
  Fade fade = {pair_of(yarn.beta_fast), pair_of(yarn.beta_slow)};
  if (yarn.truncate) fade = {std::floor(fade.begin), std::ceil(fade.end)};
  return {std::max(fade.begin, 0.0), std::min(fade.end, rope.dims - 1.0)};
}

std::vector<double> Frequencies(const hub::RopeConfig& rope) {
  std::vector<double> frequencies(rope.dims / 2);
  const Fade fade = rope.yarn.has_value() ? FadeOf(rope) : Fade{};
  for (int i = 0; i < rope.dims / 2; ++i) {
    double frequency = std::pow(rope.theta, -2.0 * i / rope.dims) / rope.linear_factor;
    if (rope.llama3.has_value()) frequency = Scaled(frequency, *rope.llama3);
    if (rope.yarn.has_value()) {
      const double kept = fade.Kept(i);
      frequency *= kept + (1 - kept) / rope.yarn->factor;
    }
    if (!rope.divisors.empty()) frequency /= rope.divisors[i];
    frequencies[i] = frequency;
  }
  return frequencies;
}

}  // namespace

void FillRotaryTable(const hub::ModelConfig& config, kernels::ThreadPool& pool, float* table) {
  const std::vector<double> frequencies = Frequencies(config.blocks.rope);
  const int dims = config.blocks.rope.dims, half = dims / 2;
  const double scale =
      config.blocks.rope.yarn.has_value() ? config.blocks.rope.yarn->attention_factor : 1;
  pool.ParallelFor(config.max_positions, kPositionsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      for (int i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * frequencies[i];
        table[p * dims + i] = static_cast<float>(scale * std::cos(angle));
        table[p * dims + half + i] = static_cast<float>(scale * std::sin(angle));
      }
    }
  });
}

}  // namespace bastion::nn
