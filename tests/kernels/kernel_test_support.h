// Helpers for kernel tests: random operands, and loops over the instruction sets of this CPU.
#ifndef BASTION_TESTS_KERNELS_KERNEL_TEST_SUPPORT_H_
#define BASTION_TESTS_KERNELS_KERNEL_TEST_SUPPORT_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "hwy/highway.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/pack.h"

namespace bastion::kernels {

inline std::vector<float> RandomFloats(size_t count, uint32_t seed, float scale = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

inline void ExpectNear(const std::vector<float>& actual, const std::vector<float>& expected,
                       const char* name) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;  // Also covers infinities.
    ASSERT_NEAR(actual[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << name << " at " << i;
  }
}

inline std::vector<uint16_t> ToBf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  for (size_t i = 0; i < values.size(); ++i) bits[i] = FloatToBf16(values[i]);
  return bits;
}

// A packed random matrix [rows, columns] that owns its memory.
struct RandomMatrix {
  RandomMatrix(WeightFormat format, int rows, int columns, uint32_t seed) {
    const std::vector<float> values = RandomFloats(size_t(rows) * columns, seed, 0.1f);
    packed = {format, rows, columns, nullptr};
    storage.resize(packed.bytes() / 4 + 16);
    // linear() requires 64-byte aligned panels.
    void* aligned = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) &
                                            ~uintptr_t{63});
    packed.data = aligned;
    const std::vector<uint16_t> bits = ToBf16(values);
    const SourceMatrix floats = {DType::kF32, values.data(), rows};
    const SourceMatrix halves = {DType::kBF16, bits.data(), rows};
    ThreadPool pool(1);
    PackMatrix({format == WeightFormat::kBF16 ? halves : floats}, packed, pool);
  }
  // W[n, k], read from the packed matrix.
  [[nodiscard]] float element(int n, int k) const {
    const size_t at = packed.offset(n, k);
    if (packed.format == WeightFormat::kF32) return static_cast<const float*>(packed.data)[at];
    if (packed.format == WeightFormat::kBF16) {
      return Bf16ToFloat(static_cast<const uint16_t*>(packed.data)[at]);
    }
    return static_cast<float>(static_cast<const int8_t*>(packed.data)[at]) *
           packed.scales(n / kPanel)[n % kPanel];
  }
  std::vector<float> storage;
  PackedMatrix packed;
};

// Calls body(name) once for each instruction set that this CPU supports, best first. Dispatch is
// restricted to that instruction set.
template <typename Body>
void ForEachInstructionSet(Body body) {
  for (int64_t rest = hwy::SupportedTargets() & HWY_TARGETS; rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest & -rest);
    body(hwy::TargetName(rest & -rest));
  }
  hwy::SetSupportedTargetsForTest(0);
}

// Rows of random logits with one rule each.
struct ChoiceCase {
  std::vector<float> logits;  // [rules.size(), vocabulary]
  std::vector<ChoiceRule> rules;
  int vocabulary;
  float temperature;
};

// Calls body(case) for several vocabularies and temperatures.
template <typename Body>
void ForEachChoiceCase(Body body) {
  const int rows = 40;
  for (const int vocabulary : {5, 64, 203, 1003, 4096}) {
    for (const float temperature : {0.0f, 0.01f, 0.3f, 1.0f, 3.0f, 1000.0f}) {
      const float scale = temperature < 0.1f ? 300 : 3;
      ChoiceCase c = {RandomFloats(size_t(rows) * vocabulary, 11 + vocabulary, scale),
                      {},
                      vocabulary,
                      temperature};
      for (int r = 0; r < rows; ++r) c.rules.push_back({temperature, 0x123456789ABCDEFull, 17 + r});
      body(c);
    }
  }
}

// Rules at two temperatures. One third of the rows have top-p, and another third have top-k.
inline std::vector<ChoiceRule> CoupledRules(int rows) {
  std::vector<ChoiceRule> rules;
  for (int r = 0; r < rows; ++r) rules.push_back({r % 2 ? 0.7f : 1.3f, 99, 1000 + r});
  for (int r = 0; r < rows; r += 3) rules[r].top_p = 0.8f;
  for (int r = 1; r < rows; r += 3) rules[r].top_k = 9;
  return rules;
}

// Multiples of 1/4, so that many tie.
inline std::vector<float> TiedFloats(size_t count, uint32_t seed) {
  std::vector<float> values = RandomFloats(count, seed, 3.0f);
  for (float& value : values) value = std::round(value * 4) / 4;
  return values;
}

// The columns `ids` of each row of `all`, whose rows have `width` floats.
inline std::vector<float> ColumnsOf(const std::vector<float>& all, int width,
                                    const std::vector<int32_t>& ids) {
  std::vector<float> columns;
  for (size_t row = 0; row < all.size(); row += width) {
    for (const int32_t id : ids) columns.push_back(all[row + id]);
  }
  return columns;
}

inline bool SameBits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

}  // namespace bastion::kernels

#endif  // BASTION_TESTS_KERNELS_KERNEL_TEST_SUPPORT_H_
