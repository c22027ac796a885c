// The noise of the keyed choice on the GPU: the same random words as in common/base/random.h, and
// the Gumbel variables derived from them. Like simt.h, this file may be included only in kernel
// sources.
#ifndef BASTION_KERNELS_CUDA_CHOOSE_NOISE_H_
#define BASTION_KERNELS_CUDA_CHOOSE_NOISE_H_

#include <cstdint>

#include "common/base/random.h"
#include "kernels/cuda/simt/simt.h"
#include "kernels/ops/ops.h"

namespace bastion::kernels::cuda {

inline constexpr int kNoiseTokens = 4;  // Tokens per call of the generator.

// Scalar copies of the generator's constants: device code cannot refer to a host array.
inline constexpr uint32_t kNoiseMultiplier0 = kPhiloxMultipliers[0];
inline constexpr uint32_t kNoiseMultiplier1 = kPhiloxMultipliers[1];
inline constexpr uint32_t kNoiseWeyl0 = kPhiloxWeyls[0];
inline constexpr uint32_t kNoiseWeyl1 = kPhiloxWeyls[1];

// The random words of tokens 4 · group … 4 · group + 3, equal to KeyedWords of
// common/base/random.h.
struct NoiseWords {
  uint32_t word[kNoiseTokens];

  // The word of token 4 · group + i. Selects it without an index, so that the words stay in
  // registers.
  SIMT_DEVICE uint32_t Of(uint32_t i) const {
    const uint32_t low = (i & 1) != 0 ? word[1] : word[0];
    const uint32_t high = (i & 1) != 0 ? word[3] : word[2];
    return (i & 2) != 0 ? high : low;
  }
};
SIMT_DEVICE NoiseWords DrawWords(const ChoiceRule& rule, uint32_t group) {
  uint32_t c0 = group, c1 = static_cast<uint32_t>(rule.position), c2 = 0, c3 = 0;
  auto key0 = static_cast<uint32_t>(rule.seed), key1 = static_cast<uint32_t>(rule.seed >> 32);
  SIMT_UNROLL
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint32_t high0 = simt::MultiplyHigh(kNoiseMultiplier0, c0), low0 = kNoiseMultiplier0 * c0;
    const uint32_t high1 = simt::MultiplyHigh(kNoiseMultiplier1, c2), low1 = kNoiseMultiplier1 * c2;
    c0 = high1 ^ c1 ^ key0;
    c1 = low1;
    c2 = high0 ^ c3 ^ key1;
    c3 = low0;
    key0 += kNoiseWeyl0;
    key1 += kNoiseWeyl1;
  }
  return {{c0, c1, c2, c3}};
}

// g = −ln(−ln u) with u = (word + 1/2) / 2³², in doubles like KeyedGumbel of common/base/random.h.
// The choice compares these values.
SIMT_DEVICE float Gumbel(uint32_t word) {
  const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
  return static_cast<float>(-simt::Log(-simt::Log(u)));
}

// g in floats, within 1e-5 of Gumbel(word). For u >= 1/2 it computes −ln u from 1 − u, for u < 1/2
// from u: a float represents the smaller of the two with full relative precision.
SIMT_DEVICE float GumbelEstimate(uint32_t word) {
  const bool likely = (word >> 31) != 0;
  const float near = (static_cast<float>(likely ? ~word : word) + 0.5f) * 0x1p-32f;
  return -simt::Log(likely ? -simt::Log1p(-near) : -simt::Log(near));
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_CHOOSE_NOISE_H_
