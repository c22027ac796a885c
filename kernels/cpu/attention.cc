// Tree attention over a paged cache.
//
// For one row and one kv head: scores against whole key pages (16 keys a vector; the heads of the
// group share each load), then one softmax, then the weighted sum of values. The row's own tree
// keys are picked out of the scored pages by its ancestor bits and put behind the prefix, in the
// order of their depth: from there on the row is a chain. The two parts of the published
// formulation (prefix without mask, tree with mask, merged by log-sum-exp) therefore meet under one
// shared maximum instead of two partial ones: the same sum, but bit for bit independent of where
// the prefix ends.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <cmath>
#include <limits>
#include <vector>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int kMaxGroup = 4;  // Query heads handled at once; larger groups take turns.
inline constexpr float kHidden = -std::numeric_limits<float>::infinity();

// The keys one row sees, as token indices: [begin, end), then `picked` in rising order.
struct VisibleKeys {
  int begin = 0;
  int end = 0;
  std::vector<int> picked;

  int count() const { return end + static_cast<int>(picked.size()); }  // Counted from token 0.
};

void FindVisibleKeys(const AttentionArgs& args, const AttentionSpan& span, int i,
                     VisibleKeys& keys) {
  keys.picked.clear();
  const int position = args.positions[span.first_row + i];
  keys.begin = args.window > 0 ? std::max(0, position - args.window + 1) : 0;
  if (span.mask == RowMask::kCausal) {
    keys.end = span.cached + i + 1;
  } else if (span.mask == RowMask::kFull) {
    keys.end = span.cached + span.rows;
  } else {
    keys.end = span.cached;
    const uint64_t* bits = span.ancestors + size_t(i) * span.words;
    for (int w = 0; w < span.words; ++w) {
      for (uint64_t rest = bits[w]; rest != 0; rest &= rest - 1) {
        keys.picked.push_back(span.cached + w * 64 + __builtin_ctzll(rest));
      }
    }
  }
}

// scores[h][t] = q_h · k_t for the 16 tokens of each of `N` pages. Each score is one chain of
// multiply-adds over d; two pages at once keep enough chains in flight.
template <typename KV, int H, int N>
HWY_INLINE void ScorePages(const float* const* queries, const KV* const* keys, int dim,
                           float* const* scores) {
  Vec sum[H][N * kVectors];
#pragma GCC unroll 4
  for (int h = 0; h < H; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < N * kVectors; ++v) sum[h][v] = hn::Zero(Floats());
  }
  for (int d = 0; d < dim; ++d) {
#pragma GCC unroll 8
    for (int v = 0; v < N * kVectors; ++v) {
      const size_t row = size_t(d) * kPageTokens + (v % kVectors) * kLanes;
      const Vec k = LoadFloats(keys[v / kVectors] + row);
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        sum[h][v] = hn::MulAdd(hn::Set(Floats(), queries[h][d]), k, sum[h][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int h = 0; h < H; ++h) {
#pragma GCC unroll 8
    for (int v = 0; v < N * kVectors; ++v) {
      hn::StoreU(sum[h][v], Floats(), scores[h] + v * kLanes);
    }
  }
}

// scores[0, count) -> exp(scale * (score - max)) in place, zero up to the next multiple of 16;
// returns their sum. Entries before `begin` become zero.
HWY_INLINE float Softmax(float* scores, int begin, int count, float scale) {
  for (int t = begin / kPanel * kPanel; t < begin; ++t) scores[t] = kHidden;
  const int padded = (count + kPanel - 1) / kPanel * kPanel;
  for (int t = count; t < padded; ++t) scores[t] = kHidden;
  const int start = begin / kPanel * kPanel;
  Lanes16 highest = Broadcast16(kHidden);
  for (int t = start; t < padded; t += kPanel) {
    for (int v = 0; v < kVectors; ++v) {
      highest.v[v] = hn::Max(highest.v[v], LoadFloats(scores + t + v * kLanes));
    }
  }
  const Vec peak = hn::Set(Floats(), Max16(highest));
  const Vec factor = hn::Set(Floats(), scale);
  Lanes16 sum = Broadcast16(0.0f);
  for (int t = start; t < padded; t += kPanel) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = scores + t + v * kLanes;
      const Vec e = hn::Exp(Floats(), hn::Mul(factor, hn::Sub(LoadFloats(at), peak)));
      hn::StoreU(e, Floats(), at);
      sum.v[v] = hn::Add(sum.v[v], e);
    }
  }
  return Sum16(sum);
}

// One row, one kv head, H query heads of its group.
template <typename KV>
class RowKernel {
 public:
  RowKernel(const AttentionArgs& args, const AttentionSpan& span, int kv_head)
      : args_(args),
        span_(span),
        dim_(args.cache.head_dim),
        page_elements_(args.cache.page_elements()),
        keys_(static_cast<const KV*>(args.cache.keys) + size_t(kv_head) * dim_ * kPageTokens),
        values_(static_cast<const KV*>(args.cache.values) + size_t(kv_head) * dim_ * kPageTokens),
        stride_((span.cached + span.rows + kPageTokens) / kPageTokens * kPageTokens + kPageTokens),
        scores_(size_t(stride_) * kMaxGroup) {}

  template <int H>
  void Run(int i, int query_head) {
    FindVisibleKeys(args_, span_, i, visible_);
    const int64_t row = span_.first_row + i;
    const float* queries[H];
    float* outputs[H];
    for (int h = 0; h < H; ++h) {
      queries[h] = args_.query + row * args_.query_stride + size_t(query_head + h) * dim_;
      outputs[h] = args_.output + (row * args_.query_heads + query_head + h) * dim_;
    }
    Score<H>(queries);
    float sums[H];
    for (int h = 0; h < H; ++h) {
      float* scores = scores_.data() + size_t(h) * stride_;
      // Picked indices rise and are never below where they go: moving in place is safe.
      for (size_t a = 0; a < visible_.picked.size(); ++a) {
        scores[visible_.end + a] = scores[visible_.picked[a]];
      }
      sums[h] = Softmax(scores, visible_.begin, visible_.count(), args_.scale);
    }
    int d = 0;
    for (; d + 4 * kLanes <= dim_; d += 4 * kLanes) WeighValues<H, 4>(d, sums, outputs);
    for (; d < dim_; d += kLanes) WeighValues<H, 1>(d, sums, outputs);
  }

 private:
  template <int H>
  void Score(const float* const* queries) {
    const int last = visible_.picked.empty() ? visible_.end : visible_.picked.back() + 1;
    int t = visible_.begin / kPageTokens * kPageTokens;
    for (; t + kPageTokens < last; t += 2 * kPageTokens) ScoreFrom<H, 2>(queries, t);
    if (t < last) ScoreFrom<H, 1>(queries, t);
  }

  // N whole pages from token `t` on.
  template <int H, int N>
  HWY_INLINE void ScoreFrom(const float* const* queries, int t) {
    const KV* keys[N];
    float* scores[H];
    for (int n = 0; n < N; ++n) {
      keys[n] = keys_ + size_t(span_.pages[t / kPageTokens + n]) * page_elements_;
    }
    for (int h = 0; h < H; ++h) scores[h] = scores_.data() + size_t(h) * stride_ + t;
    ScorePages<KV, H, N>(queries, keys, dim_, scores);
  }

  const KV* Value(int token) const {
    return values_ + size_t(span_.pages[token / kPageTokens]) * page_elements_ +
           size_t(token % kPageTokens) * dim_;
  }

  // outputs[h][d, d + N lanes) = Σ_t p_t v_t / Σ_t p_t, t in the order of positions.
  template <int H, int N>
  HWY_INLINE void WeighValues(int d, const float* sums, float* const* outputs) {
    Vec total[H][N];
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) {
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) total[h][v] = hn::Zero(Floats());
    }
    const float* scores = scores_.data();
    const auto add = [&](int index, const KV* value) HWY_ATTR {
      Vec x[N];
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) x[v] = LoadFloats(value + d + v * kLanes);
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        const Vec p = hn::Set(Floats(), scores[size_t(h) * stride_ + index]);
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) total[h][v] = hn::MulAdd(p, x[v], total[h][v]);
      }
    };
    for (int t = visible_.begin; t < visible_.end;) {
      const int page_end = std::min(visible_.end, (t / kPageTokens + 1) * kPageTokens);
      for (const KV* value = Value(t); t < page_end; ++t, value += dim_) add(t, value);
    }
    for (size_t a = 0; a < visible_.picked.size(); ++a) {
      add(visible_.end + static_cast<int>(a), Value(visible_.picked[a]));
    }
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) {
      const Vec inverse = hn::Set(Floats(), 1.0f / sums[h]);
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) {
        hn::StoreU(hn::Mul(total[h][v], inverse), Floats(), outputs[h] + d + v * kLanes);
      }
    }
  }

  const AttentionArgs& args_;
  const AttentionSpan& span_;
  const int dim_;
  const size_t page_elements_;
  const KV* keys_;
  const KV* values_;
  const int stride_;
  std::vector<float> scores_;  // [H, stride]
  VisibleKeys visible_;
};

template <typename KV>
void SpanRows(const AttentionArgs& args, const AttentionSpan& span, int64_t begin, int64_t end) {
  const int group = args.query_heads / args.cache.kv_heads;
  for (int64_t task = begin; task < end;) {
    const int kv_head = static_cast<int>(task / span.rows);
    const int64_t stop = std::min<int64_t>(end, int64_t{kv_head + 1} * span.rows);
    RowKernel<KV> kernel(args, span, kv_head);
    for (; task < stop; ++task) {
      const int i = static_cast<int>(task % span.rows);
      for (int h = 0; h < group; h += kMaxGroup) {
        const int head = kv_head * group + h;
        switch (std::min(kMaxGroup, group - h)) {
          case 1:
            kernel.template Run<1>(i, head);
            break;
          case 2:
            kernel.template Run<2>(i, head);
            break;
          case 3:
            kernel.template Run<3>(i, head);
            break;
          default:
            kernel.template Run<4>(i, head);
            break;
        }
      }
    }
  }
}

}  // namespace

// REQUIRES: head_dim is a multiple of 16.
void Attention(const AttentionArgs& args, ThreadPool& pool) {
  for (int s = 0; s < args.span_count; ++s) {
    const AttentionSpan& span = args.spans[s];
    pool.ParallelFor(int64_t{args.cache.kv_heads} * span.rows, [&](int64_t begin, int64_t end) {
      if (args.cache.dtype == DType::kF32) {
        SpanRows<float>(args, span, begin, end);
      } else {
        SpanRows<uint16_t>(args, span, begin, end);
      }
    });
  }
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Attention);
void Attention(const AttentionArgs& args, ThreadPool& pool) {
  HWY_DYNAMIC_DISPATCH(Attention)(args, pool);
}
}  // namespace bastion::kernels::cpu
#endif
