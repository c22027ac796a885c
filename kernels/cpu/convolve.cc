// The local convolution of drafted blocks, and scaled and capped rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convolve.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

// Number of elements that take about a microsecond to compute. Fewer are not worth another thread.
constexpr int kConvolveGrain = 8192, kCapGrain = 1536;

// One group of elements, from `begin` on.
void ConvolveGroup(const ConvolveArgs& args, int64_t row, int group, int taps) {
  const int groups = args.width / args.group;
  const int begin = group * args.group, end = begin + args.group;
  const float* const coefficients = args.coefficients + row * args.stride + group;
  const float* const x = args.x + row * args.width;
  float* const y = args.y + row * args.width;
  int i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    Vec sum = hn::Zero(Floats());
    for (int t = 0; t < taps; ++t) {
      const Vec dynamic = hn::Set(Floats(), coefficients[t * groups]);
      const Vec factor = hn::Add(LoadFloats(args.base + int64_t{t} * args.width + i), dynamic);
      sum = hn::MulAdd(factor, LoadFloats(x - int64_t{t} * args.width + i), sum);
    }
    hn::StoreU(args.accumulate ? hn::Add(LoadFloats(y + i), sum) : sum, Floats(), y + i);
  }
  for (; i < end; ++i) {
    float sum = 0;
    for (int t = 0; t < taps; ++t) {
      const float factor = args.base[int64_t{t} * args.width + i] + coefficients[t * groups];
      sum += factor * x[i - int64_t{t} * args.width];
    }
    y[i] = args.accumulate ? y[i] + sum : sum;
  }
}

HWY_INLINE Vec Capped(Vec x, float factor, float cap) {
  const Vec scaled = hn::Mul(x, hn::Set(Floats(), factor));
  if (!(cap > 0)) return scaled;
  const Vec limit = hn::Set(Floats(), cap);
  return hn::Mul(limit, hn::Tanh(Floats(), hn::Div(scaled, limit)));
}

void ScaleRange(const ScaleArgs& args, float* x, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(Capped(LoadFloats(x + i), args.factor, args.cap), Floats(), x + i);
  }
  if (i == count) return;
  alignas(64) float tail[kWidest] = {};
  std::copy(x + i, x + count, tail);
  hn::Store(Capped(hn::Load(Floats(), tail), args.factor, args.cap), Floats(), tail);
  std::copy_n(tail, count - i, x + i);
}

}  // namespace

void Convolve(const ConvolveArgs& args, ThreadPool& pool) {
  const int groups = args.width / args.group;
  const int grain = std::max(1, kConvolveGrain / (args.width * args.taps));
  pool.ParallelFor(args.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int taps = std::min(args.taps, static_cast<int>(row % args.block_rows) + 1);
      for (int group = 0; group < groups; ++group) ConvolveGroup(args, row, group, taps);
    }
  });
}

void Scale(const ScaleArgs& args, ThreadPool& pool) {
  const int grain = std::max(1, kCapGrain / args.width);
  pool.ParallelFor(args.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      ScaleRange(args, args.x + row * args.width, args.width);
    }
  });
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Convolve);
HWY_EXPORT(Scale);
void Convolve(const ConvolveArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(Convolve)(args, pool);
}
void Scale(const ScaleArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Scale)(args, pool); }
}  // namespace bastion::kernels::cpu
#endif
