// The mixture of experts around its matrix products: choosing experts, gathering rows by expert,
// and adding up the results.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/experts.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <vector>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

// Number of elements that take about a microsecond. Fewer are not worth another thread.
constexpr int kRouteGrain = 1024, kCopyGrain = 8192;

constexpr int GrainRows(int elements, int width) { return std::max(1, elements / width); }

// e = exp(x − largest), padded to whole vectors.
void Exponentials(const float* x, int count, float largest, float* e) {
  const Vec shift = hn::Set(Floats(), largest);
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    hn::StoreU(hn::Exp(Floats(), hn::Sub(LoadFloats(x + i), shift)), Floats(), e + i);
  }
  if (i == count) return;
  alignas(64) float tail[kWidest] = {};
  std::copy(x + i, x + count, tail);
  hn::Store(hn::Exp(Floats(), hn::Sub(hn::Load(Floats(), tail), shift)), Floats(), tail);
  std::copy_n(tail, count - i, e + i);
}

// Stores the ids of the `args.chosen` largest logits in ascending order.
void ChooseExperts(const RouteArgs& args, const float* logits, int32_t* experts) {
  for (int place = 0; place < args.chosen; ++place) {
    int best = -1;
    for (int e = 0; e < args.experts_total; ++e) {
      const bool taken = std::find(experts, experts + place, e) != experts + place;
      if (!taken && (best < 0 || logits[e] > logits[best])) best = e;
    }
    experts[place] = best;
  }
  std::sort(experts, experts + args.chosen);
}

void RouteRow(const RouteArgs& args, int64_t row) {
  static thread_local std::vector<float> exponentials;
  exponentials.resize(args.experts_total);
  const float* logits = args.logits + row * args.experts_total;
  int32_t* experts = args.experts + row * args.chosen;
  float* weights = args.weights + row * args.chosen;
  ChooseExperts(args, logits, experts);
  const float largest = *std::max_element(logits, logits + args.experts_total);
  Exponentials(logits, args.experts_total, largest, exponentials.data());
  for (int j = 0; j < args.chosen; ++j) weights[j] = exponentials[experts[j]];
  const float total =
      args.normalize ? Sum(weights, args.chosen) : Sum(exponentials.data(), args.experts_total);
  for (int j = 0; j < args.chosen; ++j) weights[j] /= total;
}

void CombineRow(const CombineArgs& args, int64_t row) {
  float* x = args.x + row * args.width;
  for (int j = 0; j < args.chosen; ++j) {
    const int64_t at = row * args.chosen + j;
    const float* y = args.y + int64_t{args.places[at]} * args.width;
    const Vec weight = hn::Set(Floats(), args.weights[at]);
    int i = 0;
    for (; i + kLanes <= args.width; i += kLanes) {
      const Vec weighted = hn::Mul(weight, LoadFloats(y + i));
      hn::StoreU(hn::Add(LoadFloats(x + i), weighted), Floats(), x + i);
    }
    for (; i < args.width; ++i) x[i] += args.weights[at] * y[i];
  }
}

}  // namespace

void Route(const RouteArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, GrainRows(kRouteGrain, args.experts_total),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t row = begin; row < end; ++row) RouteRow(args, row);
                   });
}

void GatherRows(const GatherRowsArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, GrainRows(kCopyGrain, args.width), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::copy_n(args.x + int64_t{args.sources[row]} * args.width, args.width,
                  args.y + row * args.width);
    }
  });
}

void Combine(const CombineArgs& args, ThreadPool& pool) {
  const int grain = GrainRows(kCopyGrain, args.width * args.chosen);
  pool.ParallelFor(args.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) CombineRow(args, row);
  });
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Route);
HWY_EXPORT(GatherRows);
HWY_EXPORT(Combine);
void Route(const RouteArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Route)(args, pool); }
void GatherRows(const GatherRowsArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(GatherRows)(args, pool);
}
void Combine(const CombineArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(Combine)(args, pool);
}
}  // namespace bastion::kernels::cpu
#endif
