#include "common/base/siphash.h"

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstring>

#include "common/base/check.h"

namespace bastion {
namespace {

using State = std::array<uint64_t, 4>;

void Mix(State& v, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    v[0] += v[1];
    v[2] += v[3];
    v[1] = std::rotl(v[1], 13) ^ v[0];
    v[3] = std::rotl(v[3], 16) ^ v[2];
    v[0] = std::rotl(v[0], 32) + v[3];
    v[2] += v[1];
    v[1] = std::rotl(v[1], 17) ^ v[2];
    v[3] = std::rotl(v[3], 21) ^ v[0];
    v[2] = std::rotl(v[2], 32);
  }
}

void Absorb(State& v, uint64_t word) {
  v[3] ^= word;
  Mix(v, 2);
  v[0] ^= word;
}

}  // namespace

Bits128 SipHash128(const Bits128& key, absl::string_view data) {
  State v = {key.low ^ 0x736f6d6570736575, key.high ^ 0x646f72616e646f6d ^ 0xee,
             key.low ^ 0x6c7967656e657261, key.high ^ 0x7465646279746573};
  uint64_t last = uint64_t{data.size()} << 56;
  while (data.size() >= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, data.data(), sizeof word);
    Absorb(v, word);
    data.remove_prefix(sizeof word);
  }
  for (size_t i = 0; i < data.size(); ++i) {
    last |= uint64_t{static_cast<uint8_t>(data[i])} << (8 * i);
  }
  Absorb(v, last);
  Bits128 hash;
  v[2] ^= 0xee;
  Mix(v, 4);
  hash.low = v[0] ^ v[1] ^ v[2] ^ v[3];
  v[1] ^= 0xdd;
  Mix(v, 4);
  hash.high = v[0] ^ v[1] ^ v[2] ^ v[3];
  return hash;
}

Bits128 RandomKey() {
  Bits128 key;
  CHECK_EQ(getrandom(&key, sizeof key, 0), static_cast<ssize_t>(sizeof key));
  return key;
}

}  // namespace bastion
