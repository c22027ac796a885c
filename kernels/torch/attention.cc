#include <limits>

#include "kernels/torch/cache.h"
#include "kernels/torch/kernels.h"

namespace bastion::kernels::torch {
namespace {

// [rows, earlier + rows]: true if row i of the span sees token cached + j.
at::Tensor SeenRows(const AttentionSpan& span) {
  const at::Tensor index = at::arange(span.rows, at::kLong);
  if (span.mask == RowMask::kCausal) return index.unsqueeze(0) <= index.unsqueeze(1);
  if (span.mask == RowMask::kFull) return at::ones({span.rows, span.rows}, at::kBool);
  const at::Tensor words = View(span.ancestors, at::kLong, {span.rows, span.words, 1});
  const at::Tensor bits = words.bitwise_right_shift(at::arange(64, at::kLong)).bitwise_and(1);
  return bits.view({span.rows, -1}).narrow(1, 0, span.earlier + span.rows).to(at::kBool);
}

// [rows, T]: true if row i does not see token t of the span's sequence.
at::Tensor Hidden(const AttentionArgs& args, const AttentionSpan& span) {
  const at::Tensor prefix = at::ones({span.rows, span.cached}, at::kBool);
  const at::Tensor own = SeenRows(span);
  at::Tensor seen = at::cat({prefix, own}, 1);
  if (args.window > 0) {
    // The position of a cached key is its index. The tokens after them that a row sees have
    // consecutive positions.
    const at::Tensor rows = Indices(args.positions + span.first_row, span.rows);
    const at::Tensor cached = at::arange(span.cached, at::kLong).expand({span.rows, -1});
    const at::Tensor keys = at::cat({cached, own.to(at::kLong).cumsum(1) + (span.cached - 1)}, 1);
    seen = seen.logical_and(keys > rows.unsqueeze(1) - args.window);
  }
  return seen.logical_not();
}

// Attention of one span, for the query heads of one kv head.
template <at::ScalarType kCompute>
void AttendHead(const AttentionArgs& args, const AttentionSpan& span, int kv_head) {
  const KvLayer& cache = args.cache;
  const int64_t rows = span.rows, tokens = span.length(), dim = cache.head_dim;
  const int64_t group = args.query_heads / cache.kv_heads;
  const int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  const Pages all(cache, RowsSpanned(span.pages, pages));
  const at::Tensor own = Indices(span.pages, pages);
  const at::Tensor keys = all.keys.select(1, kv_head)
                              .index_select(0, own)
                              .transpose(0, 1)
                              .reshape({dim, -1})
                              .narrow(1, 0, tokens)
                              .to(kCompute);
  const at::Tensor values = all.values.select(1, kv_head)
                                .index_select(0, own)
                                .view({-1, dim})
                                .narrow(0, 0, tokens)
                                .to(kCompute);
  const int64_t head = kv_head * group;
  const float* query = args.query + int64_t{span.first_row} * args.query_stride + head * dim;
  const at::Tensor queries =
      View(query, at::kFloat, {group, rows, dim}, {dim, args.query_stride, 1}).to(kCompute);
  const at::Tensor scores = at::matmul(queries, keys) * double{args.scale};  // [group, rows, T]
  scores.masked_fill_(Hidden(args, span), -std::numeric_limits<double>::infinity());
  float* output = args.output + (int64_t{span.first_row} * args.query_heads + head) * dim;
  View(output, at::kFloat, {group, rows, dim}, {dim, args.query_heads * dim, 1})
      .copy_(at::matmul(scores.softmax(-1), values));
}

}  // namespace

template <at::ScalarType kCompute>
void Attention(const AttentionArgs& args, ThreadPool& pool) {
  const int kv_heads = args.cache.kv_heads;
  ForRanges(pool, int64_t{args.span_count} * kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (; begin < end; ++begin) {
      AttendHead<kCompute>(args, args.spans[begin / kv_heads], static_cast<int>(begin % kv_heads));
    }
  });
}

template void Attention<at::kFloat>(const AttentionArgs&, ThreadPool&);
template void Attention<at::kDouble>(const AttentionArgs&, ThreadPool&);

}  // namespace bastion::kernels::torch
