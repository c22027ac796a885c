// Finds the most probable tokens of a row of logits. Like vector.h, this file is included once for
// every instruction set.
#if defined(BASTION_KERNELS_CPU_RANKING_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BASTION_KERNELS_CPU_RANKING_H_
#undef BASTION_KERNELS_CPU_RANKING_H_
#else
#define BASTION_KERNELS_CPU_RANKING_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {

inline float Highest(const float* x, int count) {
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

// Σ exp((x − highest)·scale). The order of the sum is the same for every instruction set.
inline float SumExp(const float* x, int count, float highest, float scale = 1.0f) {
  const Vec peak = hn::Set(Floats(), highest);
  const Vec factor = hn::Set(Floats(), scale);
  Lanes16 sum = Broadcast16(0.0f);
  int i = 0;
  for (; i + kWidest <= count; i += kWidest) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec e =
          hn::Exp(Floats(), hn::Mul(hn::Sub(LoadFloats(x + i + v * kLanes), peak), factor));
      sum.v[v] = hn::Add(sum.v[v], e);
    }
  }
  float total = Sum16(sum);
  for (; i < count; ++i) total += std::exp((x[i] - highest) * scale);
  return total;
}

// Finds a superset of the K best ids, where K is `candidates`: all tokens that reach a bound that
// at least K tokens reach. The row is divided into at least 2K interleaved strips; strip i has the
// tokens i, i + strips, …. If the vocabulary is smaller than that, each token is its own strip. The
// bound is the K-th highest of the strips' maxima.
inline void Shortlist(const float* logits, int vocabulary, int candidates,
                      std::vector<int32_t>& ids) {
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

// Finds the `candidates` best ids and sorts them by descending logit, then by ascending id. Appends
// all other tokens that tie with the last of them, in any order. A row with NaNs may give fewer
// ids. REQUIRES: 0 < candidates <= vocabulary.
inline void SortedBest(const float* logits, int vocabulary, int candidates,
                       std::vector<int32_t>& ids) {
  Shortlist(logits, vocabulary, candidates, ids);
  if (static_cast<int>(ids.size()) <= candidates) candidates = static_cast<int>(ids.size());
  if (candidates == 0) return;
  const auto end = ids.begin() + candidates;
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const float last = logits[ids[candidates - 1]];
  ids.erase(std::remove_if(end, ids.end(), [&](int32_t x) { return logits[x] != last; }),
            ids.end());
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BASTION_KERNELS_CPU_RANKING_H_
