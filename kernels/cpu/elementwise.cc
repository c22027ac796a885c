// RMS norm, layer norm, SiLU·mul, GELU and the embedding lookup.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

// Number of elements that take about a microsecond to compute. Fewer are not worth another thread.
constexpr int kNormGrain = 16384, kSiluGrain = 3072, kGeluGrain = 1536;

constexpr int GrainRows(int elements, int width) { return std::max(1, elements / width); }

void NormRow(const RmsNormArgs& args, int64_t row) {
  const float* x = args.x + row * args.width;
  float* y = args.y + row * args.width;
  const float mean = SumOfSquares(x, args.width) / static_cast<float>(args.width);
  const float scale = 1.0f / std::sqrt(mean + args.epsilon);
  const Vec factor = hn::Set(Floats(), scale);
  int i = 0;
  for (; i + kLanes <= args.width; i += kLanes) {
    const Vec scaled = hn::Mul(LoadFloats(x + i), factor);
    hn::StoreU(hn::Mul(scaled, LoadFloats(args.weight + i)), Floats(), y + i);
  }
  for (; i < args.width; ++i) y[i] = x[i] * scale * args.weight[i];
}

void LayerNormRow(const LayerNormArgs& args, int64_t row) {
  const float* x = args.x + row * args.width;
  float* y = args.y + row * args.width;
  const float mean = Sum(x, args.width) / static_cast<float>(args.width);
  const Vec center = hn::Set(Floats(), mean);
  int i = 0;
  for (; i + kLanes <= args.width; i += kLanes) {
    hn::StoreU(hn::Sub(LoadFloats(x + i), center), Floats(), y + i);
  }
  for (; i < args.width; ++i) y[i] = x[i] - mean;
  const float variance = SumOfSquares(y, args.width) / static_cast<float>(args.width);
  const float scale = 1.0f / std::sqrt(variance + args.epsilon);
  const Vec factor = hn::Set(Floats(), scale);
  for (i = 0; i + kLanes <= args.width; i += kLanes) {
    const Vec scaled = hn::Mul(hn::Mul(LoadFloats(y + i), factor), LoadFloats(args.weight + i));
    hn::StoreU(hn::Add(scaled, LoadFloats(args.bias + i)), Floats(), y + i);
  }
  for (; i < args.width; ++i) y[i] = y[i] * scale * args.weight[i] + args.bias[i];
}

HWY_INLINE Vec Silu(Vec x) {
  const Vec one = hn::Set(Floats(), 1.0f);
  return hn::Div(x, hn::Add(one, hn::Exp(Floats(), hn::Neg(x))));
}

void SiluMulRow(const SiluMulArgs& args, int64_t row) {
  const float* gate = args.gate_up + row * 2 * args.width;
  const float* up = gate + args.width;
  float* y = args.y + row * args.width;
  int i = 0;
  for (; i + kLanes <= args.width; i += kLanes) {
    hn::StoreU(hn::Mul(Silu(LoadFloats(gate + i)), LoadFloats(up + i)), Floats(), y + i);
  }
  if (i == args.width) return;
  alignas(64) float tail[kWidest] = {};
  for (int j = i; j < args.width; ++j) tail[j - i] = gate[j];
  hn::Store(Silu(hn::Load(Floats(), tail)), Floats(), tail);
  for (int j = i; j < args.width; ++j) y[j] = tail[j - i] * up[j];
}

// x Φ(x). The tail 1 − Φ(|x|) is exp(−x²/2) times a polynomial in t = 1 / (1 + |x|/4) without a
// constant term, which was fitted to minimize the largest relative error over |x| < 13.5: 5e-8.
// Beyond, the tail is 0 in float.
HWY_INLINE Vec GeluOf(Vec x) {
  constexpr float kFit[] = {0.0262954597f, -0.155636366f, 0.302075834f,  -0.21274758f, 0.206696187f,
                            0.030759247f,  0.104321723f,  0.0984328121f, 0.099802657f};
  const Vec one = hn::Set(Floats(), 1.0f);
  const Vec magnitude = hn::Abs(x);
  const Vec t = hn::Div(one, hn::MulAdd(hn::Set(Floats(), 0.25f), magnitude, one));
  Vec fit = hn::Set(Floats(), kFit[0]);
  for (size_t i = 1; i < std::size(kFit); ++i) {
    fit = hn::MulAdd(fit, t, hn::Set(Floats(), kFit[i]));
  }
  const Vec half_square = hn::Mul(hn::Mul(magnitude, magnitude), hn::Set(Floats(), -0.5f));
  const Vec tail = hn::Mul(hn::Mul(fit, t), hn::Exp(Floats(), half_square));
  return hn::Mul(x, hn::IfNegativeThenElse(x, tail, hn::Sub(one, tail)));
}

void GeluRow(const GeluArgs& args, int64_t row) {
  const float* x = args.x + row * args.width;
  float* y = args.y + row * args.width;
  int i = 0;
  for (; i + kLanes <= args.width; i += kLanes) {
    hn::StoreU(GeluOf(LoadFloats(x + i)), Floats(), y + i);
  }
  if (i == args.width) return;
  alignas(64) float tail[kWidest] = {};
  for (int j = i; j < args.width; ++j) tail[j - i] = x[j];
  hn::Store(GeluOf(hn::Load(Floats(), tail)), Floats(), tail);
  for (int j = i; j < args.width; ++j) y[j] = tail[j - i];
}

template <typename W>
void EmbedRow(const EmbedArgs& args, int64_t row) {
  const W* source = static_cast<const W*>(args.table) + size_t(args.tokens[row]) * args.width;
  float* y = args.y + row * args.width;
  for (int i = 0; i < args.width; ++i) y[i] = LoadFloat(source + i);
}

}  // namespace

void RmsNorm(const RmsNormArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, GrainRows(kNormGrain, args.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) NormRow(args, row);
  });
}

void SiluMul(const SiluMulArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, GrainRows(kSiluGrain, args.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) SiluMulRow(args, row);
  });
}

void LayerNorm(const LayerNormArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, GrainRows(kNormGrain, args.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) LayerNormRow(args, row);
  });
}

void Gelu(const GeluArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, GrainRows(kGeluGrain, args.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) GeluRow(args, row);
  });
}

void Embed(const EmbedArgs& args, ThreadPool&) {
  for (int row = 0; row < args.rows; ++row) {
    if (args.dtype == DType::kF32) {
      EmbedRow<float>(args, row);
    } else {
      EmbedRow<uint16_t>(args, row);
    }
  }
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(RmsNorm);
HWY_EXPORT(SiluMul);
HWY_EXPORT(LayerNorm);
HWY_EXPORT(Gelu);
HWY_EXPORT(Embed);
void RmsNorm(const RmsNormArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(RmsNorm)(args, pool);
}
void SiluMul(const SiluMulArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(SiluMul)(args, pool);
}
void LayerNorm(const LayerNormArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(LayerNorm)(args, pool);
}
void Gelu(const GeluArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Gelu)(args, pool); }
void Embed(const EmbedArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Embed)(args, pool); }
}  // namespace bastion::kernels::cpu
#endif
