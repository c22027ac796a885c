// Helpers for the vector kernels. This file is included once for every instruction set (Highway's
// foreach_target scheme), so it has no ordinary include guard. Its contents are inside
// HWY_NAMESPACE.
//
// Sums over a row use 16 virtual lanes: element i belongs to lane i % 16. The lanes are added in a
// fixed order, so a result does not depend on the width of the vectors.
#if defined(BASTION_KERNELS_CPU_VECTOR_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BASTION_KERNELS_CPU_VECTOR_H_
#undef BASTION_KERNELS_CPU_VECTOR_H_
#else
#define BASTION_KERNELS_CPU_VECTOR_H_
#endif

#include <algorithm>
#include <cstdint>

#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/ops/types.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A vector of at most 16 floats; kVectors of them hold 16 floats.
using Floats = hn::CappedTag<float, kWidest>;
using Vec = hn::Vec<Floats>;
inline constexpr int kLanes = hn::MaxLanes(Floats());
inline constexpr int kVectors = kWidest / kLanes;

HWY_INLINE Vec LoadFloats(const float* p) { return hn::LoadU(Floats(), p); }
HWY_INLINE Vec LoadFloats(const uint16_t* p) {
  const hn::Rebind<uint16_t, Floats> half;
  const hn::RebindToUnsigned<Floats> words;
  return hn::BitCast(Floats(), hn::ShiftLeft<16>(hn::PromoteTo(words, hn::LoadU(half, p))));
}
HWY_INLINE float LoadFloat(const float* p) { return *p; }
HWY_INLINE float LoadFloat(const uint16_t* p) { return Bf16ToFloat(*p); }
HWY_INLINE void StoreFloat(float value, float* p) { *p = value; }
HWY_INLINE void StoreFloat(float value, uint16_t* p) { *p = FloatToBf16(value); }

// 16 virtual lanes.
struct Lanes16 {
  Vec v[kVectors];
};

HWY_INLINE Lanes16 Broadcast16(float value) {
  Lanes16 lanes;
  for (int i = 0; i < kVectors; ++i) lanes.v[i] = hn::Set(Floats(), value);
  return lanes;
}

HWY_INLINE float Sum16(const Lanes16& lanes) {
  alignas(64) float a[kWidest] = {};
  for (int i = 0; i < kVectors; ++i) hn::Store(lanes.v[i], Floats(), a + i * kLanes);
  for (int width = kWidest / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) a[i] += a[i + width];
  }
  return a[0];
}

HWY_INLINE float Max16(const Lanes16& lanes) {
  alignas(64) float a[kWidest] = {};
  for (int i = 0; i < kVectors; ++i) hn::Store(lanes.v[i], Floats(), a + i * kLanes);
  return *std::max_element(a, a + kWidest);
}

// Σ x over 16 virtual lanes, for any count.
HWY_INLINE float Sum(const float* x, int count) {
  Lanes16 sum = Broadcast16(0.0f);
  int i = 0;
  for (; i + kWidest <= count; i += kWidest) {
    for (int v = 0; v < kVectors; ++v) {
      sum.v[v] = hn::Add(sum.v[v], LoadFloats(x + i + v * kLanes));
    }
  }
  alignas(64) float tail[kWidest] = {};
  for (int j = i; j < count; ++j) tail[j - i] = x[j];
  for (int v = 0; v < kVectors; ++v) {
    sum.v[v] = hn::Add(sum.v[v], LoadFloats(tail + v * kLanes));
  }
  return Sum16(sum);
}

// Σ x² over 16 virtual lanes, for any count.
HWY_INLINE float SumOfSquares(const float* x, int count) {
  Lanes16 sum = Broadcast16(0.0f);
  int i = 0;
  for (; i + kWidest <= count; i += kWidest) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec value = LoadFloats(x + i + v * kLanes);
      sum.v[v] = hn::MulAdd(value, value, sum.v[v]);
    }
  }
  alignas(64) float tail[kWidest] = {};
  for (int j = i; j < count; ++j) tail[j - i] = x[j];
  for (int v = 0; v < kVectors; ++v) {
    const Vec value = LoadFloats(tail + v * kLanes);
    sum.v[v] = hn::MulAdd(value, value, sum.v[v]);
  }
  return Sum16(sum);
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BASTION_KERNELS_CPU_VECTOR_H_
