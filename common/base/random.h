// Counter-based random numbers: a value is a pure function of its key and counter, so it does not
// depend on the order of calls, on the batch, or on speculation. The keyed choice uses them: the
// target chooses the token x with the largest logit(x)/T + g(seed, position, x), where g is Gumbel
// noise (docs/sampling.md).
//
// Generator: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
// easy as 1, 2, 3", SC 2011). Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_RANDOM_H_
#define BASTION_COMMON_BASE_RANDOM_H_

#include <array>
#include <cstdint>

#include "common/base/ids.h"

namespace bastion {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Constants for the vectorized and GPU versions of the generator.
inline constexpr int kPhiloxRounds = 10;
inline constexpr uint32_t kPhiloxMultipliers[] = {0xD2511F53, 0xCD9E8D57};
inline constexpr uint32_t kPhiloxWeyls[] = {0x9E3779B9, 0xBB67AE85};

// Four uniform 32-bit words for (counter, key).
[[nodiscard]] PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key);

[[nodiscard]] constexpr PhiloxKey PhiloxKeyOf(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}

// The random words for the keyed choice of tokens 4*group .. 4*group+3.
[[nodiscard]] PhiloxCounter KeyedWords(uint64_t seed, Position position, uint32_t group);

// The standard Gumbel noise g(seed, position, token) of the keyed choice. `position` is the
// absolute position of the token to choose. The same arguments give the same value everywhere.
[[nodiscard]] float KeyedGumbel(uint64_t seed, Position position, TokenId token);

// The four values for tokens 4*group .. 4*group+3 in one generator call.
[[nodiscard]] std::array<float, 4> KeyedGumbelGroup(uint64_t seed, Position position,
                                                    uint32_t group);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_RANDOM_H_
