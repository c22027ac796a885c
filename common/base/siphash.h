// SipHash-2-4 with a result of 128 bits (Aumasson, Bernstein: "SipHash: a fast short-input PRF",
// 2012). It is infeasible to find two inputs with the same hash without the key. Thread-safe: no
// state.
#ifndef BASTION_COMMON_BASE_SIPHASH_H_
#define BASTION_COMMON_BASE_SIPHASH_H_

#include <cstdint>
#include <utility>

#include "absl/strings/string_view.h"

namespace bastion {

// 128 bits, as two little-endian words.
struct Bits128 {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const Bits128&, const Bits128&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Bits128& bits) {
    return H::combine(std::move(h), bits.low, bits.high);
  }
};

[[nodiscard]] Bits128 SipHash128(const Bits128& key, absl::string_view data);

// A key from the operating system's secure random source.
[[nodiscard]] Bits128 RandomKey();

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_SIPHASH_H_
