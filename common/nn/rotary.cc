#include "common/nn/rotary.h"

#include <cmath>
#include <vector>

namespace bastion::nn {
namespace {

constexpr int64_t kPositionsPerTask = 64;

}  // namespace

void FillRotaryTable(const hub::ModelConfig& config, kernels::ThreadPool& pool, float* table) {
  const int head_dim = config.dims.head_dim, half = head_dim / 2;
  std::vector<double> frequencies(half);
  for (int i = 0; i < half; ++i) {
    frequencies[i] = std::pow(config.rope_theta, -2.0 * i / head_dim);
  }
  pool.ParallelFor(config.max_positions, kPositionsPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      for (int i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * frequencies[i];
        table[p * head_dim + i] = static_cast<float>(std::cos(angle));
        table[p * head_dim + half + i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

}  // namespace bastion::nn
