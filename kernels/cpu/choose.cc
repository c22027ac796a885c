// The target's choice of a token, and the drafter's top candidates.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/choose.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

float Highest(const float* x, int count) {
  Vec highest[4];
  for (Vec& part : highest) part = hn::Set(Floats(), x[0]);
  int i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int v = 0; v < 4; ++v) highest[v] = hn::Max(highest[v], LoadFloats(x + i + v * kLanes));
  }
  const Vec all = hn::Max(hn::Max(highest[0], highest[1]), hn::Max(highest[2], highest[3]));
  float result = hn::GetLane(hn::MaxOfLanes(Floats(), all));
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

int32_t ArgMax(const float* logits, int count) {
  const float* found = std::find(logits, logits + count, Highest(logits, count));
  return found == logits + count ? -1 : static_cast<int32_t>(found - logits);
}

int32_t GumbelArgMax(const float* logits, int count, float temperature, uint64_t seed,
                     int32_t position) {
  int32_t best = -1;
  float best_value = -std::numeric_limits<float>::infinity();
  for (int first = 0; first < count; first += 4) {
    const std::array<float, 4> noise = KeyedGumbelGroup(seed, position, first / 4);
    for (int x = first; x < std::min(first + 4, count); ++x) {
      const float value = logits[x] / temperature + noise[x - first];
      if (value > best_value) {
        best_value = value;
        best = x;
      }
    }
  }
  return best;
}

// Σ exp(x - highest).
float SumExp(const float* x, int count, float highest) {
  const Vec peak = hn::Set(Floats(), highest);
  Lanes16 sum = Broadcast16(0.0f);
  int i = 0;
  for (; i + kWidest <= count; i += kWidest) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec e = hn::Exp(Floats(), hn::Sub(LoadFloats(x + i + v * kLanes), peak));
      sum.v[v] = hn::Add(sum.v[v], e);
    }
  }
  float total = Sum16(sum);
  for (; i < count; ++i) total += std::exp(x[i] - highest);
  return total;
}

// Ids that may be among the K best: everything not below a bound that at least K tokens reach.
// The bound is the K-th best of the maxima of 2K or more interleaved strips; a strip is one column
// of the logits laid out in rows of as many.
void Shortlist(const float* logits, int vocabulary, int candidates, std::vector<int32_t>& ids) {
  const int strips = std::min(vocabulary, (2 * candidates + kWidest - 1) / kWidest * kWidest);
  static thread_local std::vector<float> maxima;
  maxima.assign(logits, logits + strips);
  int first = strips;
  for (; first + strips <= vocabulary; first += strips) {
    int i = 0;
    for (; i + kLanes <= strips; i += kLanes) {
      const Vec highest = hn::Max(LoadFloats(maxima.data() + i), LoadFloats(logits + first + i));
      hn::StoreU(highest, Floats(), maxima.data() + i);
    }
    for (; i < strips; ++i) maxima[i] = std::max(maxima[i], logits[first + i]);
  }
  for (int x = first; x < vocabulary; ++x)
    maxima[x - first] = std::max(maxima[x - first], logits[x]);
  std::nth_element(maxima.begin(), maxima.begin() + (candidates - 1), maxima.end(),
                   std::greater<>());
  const float bound = maxima[candidates - 1];
  ids.resize(vocabulary);
  int32_t* next = ids.data();
  for (int32_t x = 0; x < vocabulary; ++x) {
    *next = x;
    next += static_cast<int>(logits[x] >= bound);
  }
  ids.resize(next - ids.data());
}

void MarkBroken(const TopKArgs& args, int64_t row) {
  std::fill_n(args.tokens + row * args.candidates, args.candidates, -1);
  std::fill_n(args.log_probs + row * args.candidates, args.candidates,
              std::numeric_limits<float>::quiet_NaN());
}

void TopKRow(const TopKArgs& args, int64_t row) {
  const float* logits = args.logits + row * args.vocabulary;
  static thread_local std::vector<int32_t> ids;
  Shortlist(logits, args.vocabulary, args.candidates, ids);
  if (static_cast<int>(ids.size()) < args.candidates) return MarkBroken(args, row);
  std::partial_sort(ids.begin(), ids.begin() + args.candidates, ids.end(), [&](int a, int b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const float highest = logits[ids[0]];
  const float log_sum = std::log(SumExp(logits, args.vocabulary, highest));
  for (int k = 0; k < args.candidates; ++k) {
    args.tokens[row * args.candidates + k] = ids[k];
    args.log_probs[row * args.candidates + k] = std::min(0.0f, logits[ids[k]] - highest - log_sum);
  }
}

}  // namespace

void Choose(const ChooseArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* logits = args.logits + row * args.vocabulary;
      const float temperature = args.temperatures[row];
      args.tokens[row] = temperature > 0.0f ? GumbelArgMax(logits, args.vocabulary, temperature,
                                                           args.seeds[row], args.positions[row])
                                            : ArgMax(logits, args.vocabulary);
    }
  });
}

void TopK(const TopKArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) TopKRow(args, row);
  });
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Choose);
HWY_EXPORT(TopK);
void Choose(const ChooseArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Choose)(args, pool); }
void TopK(const TopKArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(TopK)(args, pool); }
}  // namespace bastion::kernels::cpu
#endif
