#include "common/base/random.h"

#include <cmath>

namespace bastion {
namespace {

// Uniform in the open interval (0, 1), so that the two logarithms below are finite.
double OpenUniform(uint32_t word) { return (static_cast<double>(word) + 0.5) * 0x1p-32; }

float Gumbel(uint32_t word) { return static_cast<float>(-std::log(-std::log(OpenUniform(word)))); }

}  // namespace

PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxMultipliers[0]} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxMultipliers[1]} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kPhiloxWeyls[0];
    key[1] += kPhiloxWeyls[1];
  }
  return counter;
}

PhiloxCounter KeyedWords(uint64_t seed, Position position, uint32_t group) {
  return Philox4x32({group, static_cast<uint32_t>(position), 0, 0}, PhiloxKeyOf(seed));
}

std::array<float, 4> KeyedGumbelGroup(uint64_t seed, Position position, uint32_t group) {
  const PhiloxCounter words = KeyedWords(seed, position, group);
  return {Gumbel(words[0]), Gumbel(words[1]), Gumbel(words[2]), Gumbel(words[3])};
}

float KeyedGumbel(uint64_t seed, Position position, TokenId token) {
  const auto id = static_cast<uint32_t>(token);
  return KeyedGumbelGroup(seed, position, id / 4)[id % 4];
}

}  // namespace bastion
