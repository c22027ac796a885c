// Tree attention over a paged KV cache.
//
// The kernel processes a few rows of a span and one kv head at a time, with the group of query
// heads that use this kv head. First it scores the rows against whole pages of keys, 16 keys per
// vector; the rows and the heads of the group share each load. Then it computes one softmax per
// row, and finally the weighted sums of values. For a row of a tree, it uses the ancestor bits to
// pick the scores of the row's ancestors and moves them after the scores of the prefix, ordered by
// depth. From then on, the row looks like the last row of a chain.
//
// The published formulation of tree attention computes two parts (the prefix without a mask, the
// tree with a mask) and merges them by log-sum-exp. Here, both parts share one maximum and one sum.
// The result is mathematically the same, but its bits do not depend on where the prefix ends.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

inline constexpr int kMaxGroup = 4;  // Query heads per pass. Larger groups need several passes.
// Rows x heads per pass, if there is more than one row.
inline constexpr int kMaxQueries = kLanes == kWidest ? 6 : 1;
inline constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Rows per pass with `heads` heads. They share the loads of keys and values.
constexpr int RowsFor(int heads) { return std::max(1, kMaxQueries / heads); }

// The keys that one row sees, as token indices: [begin, end), then `picked` in ascending order.
struct VisibleKeys {
  int begin = 0;
  int end = 0;
  std::vector<int> picked;

  int count() const { return end + static_cast<int>(picked.size()); }  // Includes [0, begin).
  int last() const { return picked.empty() ? end : picked.back() + 1; }
};

void FindVisibleKeys(const AttentionArgs& args, const AttentionSpan& span, int i,
                     VisibleKeys& keys) {
  keys.picked.clear();
  const int position = args.positions[span.first_row + i];
  keys.begin = args.window > 0 ? std::max(0, position - args.window + 1) : 0;
  if (span.mask == RowMask::kCausal) {
    keys.end = span.cached + i + 1;
  } else if (span.mask == RowMask::kFull) {
    keys.end = span.length();
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

// scores[q][t] = query_q · k_t for the 16 tokens of each of N pages. Each score is one chain of
// dependent multiply-adds over d. Two pages at a time give enough independent chains to hide their
// latency.
template <typename KV, int Q, int N>
HWY_INLINE void ScorePages(const float* const* queries, const KV* const* keys, int dim,
                           float* const* scores) {
  Vec sum[Q][N * kVectors];
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int v = 0; v < N * kVectors; ++v) sum[q][v] = hn::Zero(Floats());
  }
  for (int d = 0; d < dim; ++d) {
    Vec k[N * kVectors];
#pragma GCC unroll 8
    for (int v = 0; v < N * kVectors; ++v) {
      const size_t row = size_t(d) * kPageTokens + (v % kVectors) * kLanes;
      k[v] = LoadFloats(keys[v / kVectors] + row);
    }
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const Vec x = hn::Set(Floats(), queries[q][d]);
#pragma GCC unroll 8
      for (int v = 0; v < N * kVectors; ++v) sum[q][v] = hn::MulAdd(x, k[v], sum[q][v]);
    }
  }
#pragma GCC unroll 8
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 8
    for (int v = 0; v < N * kVectors; ++v) {
      hn::StoreU(sum[q][v], Floats(), scores[q] + v * kLanes);
    }
  }
}

// Replaces scores [begin, count) with exp(scale * (score - max)) and returns the sum. Also sets to
// zero the entries before `begin` in the same group of 16, and the entries from `count` up to the
// next multiple of 16.
HWY_INLINE float Softmax(float* scores, int begin, int count, float scale) {
  for (int t = begin / kWidest * kWidest; t < begin; ++t) scores[t] = kHidden;
  const int padded = (count + kWidest - 1) / kWidest * kWidest;
  for (int t = count; t < padded; ++t) scores[t] = kHidden;
  const int start = begin / kWidest * kWidest;
  Lanes16 highest = Broadcast16(kHidden);
  for (int t = start; t < padded; t += kWidest) {
    for (int v = 0; v < kVectors; ++v) {
      highest.v[v] = hn::Max(highest.v[v], LoadFloats(scores + t + v * kLanes));
    }
  }
  const Vec peak = hn::Set(Floats(), Max16(highest));
  const Vec factor = hn::Set(Floats(), scale);
  Lanes16 sum = Broadcast16(0.0f);
  for (int t = start; t < padded; t += kWidest) {
    for (int v = 0; v < kVectors; ++v) {
      float* at = scores + t + v * kLanes;
      const Vec e = hn::Exp(Floats(), hn::Mul(factor, hn::Sub(LoadFloats(at), peak)));
      hn::StoreU(e, Floats(), at);
      sum.v[v] = hn::Add(sum.v[v], e);
    }
  }
  return Sum16(sum);
}

// Attention of one span and one kv head, for R rows and H query heads at a time.
template <typename KV>
class SpanKernel {
 public:
  SpanKernel(const AttentionArgs& args, const AttentionSpan& span, int kv_head)
      : args_(args),
        span_(span),
        dim_(args.cache.head_dim),
        page_elements_(args.cache.page_elements()),
        keys_(static_cast<const KV*>(args.cache.keys) + size_t(kv_head) * dim_ * kPageTokens),
        values_(static_cast<const KV*>(args.cache.values) + size_t(kv_head) * dim_ * kPageTokens),
        stride_((span.length() + kPageTokens) / kPageTokens * kPageTokens + kPageTokens) {
    const size_t needed = size_t(stride_) * std::max(kMaxQueries, kMaxGroup);
    if (scores_.size() < needed) scores_.resize(needed);
  }

  // Processes rows [begin, end) of the span and query heads [head, head + H).
  template <int H>
  void RunRows(int begin, int end, int head) {
    for (; begin + RowsFor(H) <= end; begin += RowsFor(H)) Run<RowsFor(H), H>(begin, head);
    for (; begin < end; ++begin) Run<1, H>(begin, head);
  }

 private:
  template <int R, int H>
  void Run(int i, int head) {
    constexpr int Q = R * H;
    const float* queries[Q];
    float* scores[Q];
    float* outputs[Q];
    for (int r = 0; r < R; ++r) {
      FindVisibleKeys(args_, span_, i + r, visible_[r]);
      const int64_t row = span_.first_row + i + r;
      for (int h = 0; h < H; ++h) {
        const int q = r * H + h;
        queries[q] = args_.query + row * args_.query_stride + size_t(head + h) * dim_;
        outputs[q] = args_.output + (row * args_.query_heads + head + h) * dim_;
        scores[q] = scores_.data() + size_t(q) * stride_;
      }
    }
    Score<Q>(queries, scores, R);
    float sums[Q];
    for (int q = 0; q < Q; ++q) {
      const VisibleKeys& visible = visible_[q / H];
      // In-place moves are safe: the picked indices ascend and are never below their destinations.
      for (size_t a = 0; a < visible.picked.size(); ++a) {
        scores[q][visible.end + a] = scores[q][visible.picked[a]];
      }
      sums[q] = Softmax(scores[q], visible.begin, visible.count(), args_.scale);
    }
    int d = 0;
    for (; d + 4 * kLanes <= dim_; d += 4 * kLanes) WeighValues<R, H, 4>(d, scores, sums, outputs);
    for (; d < dim_; d += kLanes) WeighValues<R, H, 1>(d, scores, sums, outputs);
  }

  // Scores every page that at least one of the `rows` rows sees.
  template <int Q>
  void Score(const float* const* queries, float* const* scores, int rows) {
    int begin = visible_[0].begin, last = visible_[0].last();
    for (int r = 1; r < rows; ++r) {
      begin = std::min(begin, visible_[r].begin);
      last = std::max(last, visible_[r].last());
    }
    int t = begin / kPageTokens * kPageTokens;
    for (; t + kPageTokens < last; t += 2 * kPageTokens) ScoreFrom<Q, 2>(queries, scores, t);
    if (t < last) ScoreFrom<Q, 1>(queries, scores, t);
  }

  // Scores N whole pages, starting at token `t`.
  template <int Q, int N>
  HWY_INLINE void ScoreFrom(const float* const* queries, float* const* scores, int t) {
    const KV* keys[N];
    float* at[Q];
    for (int n = 0; n < N; ++n) {
      keys[n] = keys_ + size_t(span_.pages[t / kPageTokens + n]) * page_elements_;
    }
    for (int q = 0; q < Q; ++q) at[q] = scores[q] + t;
    ScorePages<KV, Q, N>(queries, keys, dim_, at);
  }

  const KV* Value(int token) const {
    return values_ + size_t(span_.pages[token / kPageTokens]) * page_elements_ +
           size_t(token % kPageTokens) * dim_;
  }

  // total[q] += scores[q][index] · value, for Q queries.
  template <int Q, int N>
  HWY_INLINE void Add(const KV* value, float* const* scores, int index, Vec (*total)[N]) {
    Vec x[N];
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) x[v] = LoadFloats(value + v * kLanes);
#pragma GCC unroll 8
    for (int q = 0; q < Q; ++q) {
      const Vec p = hn::Set(Floats(), scores[q][index]);
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) total[q][v] = hn::MulAdd(p, x[v], total[q][v]);
    }
  }

  // Calls Add for the tokens [begin, end), in order.
  template <int Q, int N>
  HWY_INLINE void AddRun(int begin, int end, int d, float* const* scores, Vec (*total)[N]) {
    for (int t = begin; t < end;) {
      const int page_end = std::min(end, (t / kPageTokens + 1) * kPageTokens);
      for (const KV* value = Value(t) + d; t < page_end; ++t, value += dim_) {
        Add<Q, N>(value, scores, t, total);
      }
    }
  }

  // outputs[q][d, d + N lanes) = Σ_t p_t v_t / Σ_t p_t, with t in the order of positions. Values
  // that all rows see are loaded once for all rows. Values that only some rows see are loaded
  // separately for each row.
  template <int R, int H, int N>
  HWY_INLINE void WeighValues(int d, float* const* scores, const float* sums,
                              float* const* outputs) {
    Vec total[R * H][N];
#pragma GCC unroll 8
    for (int q = 0; q < R * H; ++q) {
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) total[q][v] = hn::Zero(Floats());
    }
    int begin = visible_[0].begin, end = visible_[0].end;
    for (int r = 1; r < R; ++r) {
      begin = std::max(begin, visible_[r].begin);
      end = std::min(end, visible_[r].end);
    }
    end = std::max(begin, end);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const int stop = std::min(begin, visible_[r].end);
      AddRun<H, N>(visible_[r].begin, stop, d, scores + r * H, total + r * H);
    }
    AddRun<R * H, N>(begin, end, d, scores, total);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const VisibleKeys& visible = visible_[r];
      AddRun<H, N>(end, visible.end, d, scores + r * H, total + r * H);
      // The window may begin among the picked keys. Softmax did not compute weights for the keys
      // before it.
      for (size_t a = std::max(0, visible.begin - visible.end); a < visible.picked.size(); ++a) {
        Add<H, N>(Value(visible.picked[a]) + d, scores + r * H, visible.end + static_cast<int>(a),
                  total + r * H);
      }
    }
#pragma GCC unroll 8
    for (int q = 0; q < R * H; ++q) {
      const Vec inverse = hn::Set(Floats(), 1.0f / sums[q]);
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) {
        hn::StoreU(hn::Mul(total[q][v], inverse), Floats(), outputs[q] + d + v * kLanes);
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
  // Kept across calls, so that a step does not allocate.
  static thread_local VisibleKeys visible_[std::max(kMaxQueries, 1)];
  static thread_local std::vector<float> scores_;  // [Q, stride]
};

template <typename KV>
thread_local VisibleKeys SpanKernel<KV>::visible_[std::max(kMaxQueries, 1)];

template <typename KV>
thread_local std::vector<float> SpanKernel<KV>::scores_;

// Runs the tasks [begin, end). Task t is row t % rows of the span for kv head t / rows.
template <typename KV>
void SpanRows(const AttentionArgs& args, const AttentionSpan& span, int64_t begin, int64_t end) {
  const int group = args.query_heads / args.cache.kv_heads;
  for (int64_t task = begin; task < end;) {
    const int kv_head = static_cast<int>(task / span.rows);
    const int64_t first = int64_t{kv_head} * span.rows;
    const int64_t stop = std::min<int64_t>(end, first + span.rows);
    const int from = static_cast<int>(task - first), to = static_cast<int>(stop - first);
    SpanKernel<KV> kernel(args, span, kv_head);
    for (int h = 0; h < group; h += kMaxGroup) {
      const int head = kv_head * group + h;
      switch (std::min(kMaxGroup, group - h)) {
        case 1:
          kernel.template RunRows<1>(from, to, head);
          break;
        case 2:
          kernel.template RunRows<2>(from, to, head);
          break;
        case 3:
          kernel.template RunRows<3>(from, to, head);
          break;
        default:
          kernel.template RunRows<4>(from, to, head);
          break;
      }
    }
    task = stop;
  }
}

}  // namespace

// REQUIRES: head_dim is a multiple of 16.
void Attention(const AttentionArgs& args, ThreadPool& pool) {
  const int group = std::min(kMaxGroup, args.query_heads / args.cache.kv_heads);
  // One loop over the tasks of all spans: a loop per span would make the threads wait for each
  // other as often as there are sequences. first_task[s] is the first task of span s.
  static thread_local std::vector<int64_t> first_task;
  first_task.assign(1, 0);
  for (int s = 0; s < args.span_count; ++s) {
    first_task.push_back(first_task.back() + int64_t{args.cache.kv_heads} * args.spans[s].rows);
  }
  const absl::Span<const int64_t> first = first_task;  // Workers have a first_task of their own.
  pool.ParallelFor(first.back(), RowsFor(group), [&](int64_t begin, int64_t end) {
    auto s = std::upper_bound(first.begin(), first.end(), begin) - first.begin() - 1;
    for (int64_t task = begin; task < end; ++s) {
      const int64_t stop = std::min(end, first[s + 1]);
      const int64_t from = task - first[s], to = stop - first[s];
      if (args.cache.dtype == DType::kF32) {
        SpanRows<float>(args, args.spans[s], from, to);
      } else {
        SpanRows<uint16_t>(args, args.spans[s], from, to);
      }
      task = stop;
    }
  });
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
