// Attention in fp32, which is a reference for tests and not optimized. One warp computes a (row,
// head): each lane scores one key of 32, then each lane adds up some columns of the values. The
// keys are in the order of positions, so a row's bits depend on its own keys alone.
#include "kernels/cuda/attention/attention_launch.h"
#include "kernels/cuda/attention/attention_plan.h"

namespace bastion::kernels::cuda::attention {
namespace {

struct ExactRow {
  static constexpr int kColumns = 8;  // Columns per lane, so head_dim <= 256.

  float output[kColumns] = {0, 0, 0, 0, 0, 0, 0, 0};
  float peak = -Infinity();
  float weight = 0;
};

// Offset of a token of a span in the layer's keys, and of its value in the values, in elements.
SIMT_DEVICE int64_t KeyOffset(const AttentionArgs& args, const Span& span, int token, int kv_head) {
  const int page = args.rows.pages[args.rows.first_pages[span.index] + token / kPageTokens];
  const int64_t head = static_cast<int64_t>(page) * args.cache.kv_heads + kv_head;
  return (head * kPageTokens + token % kPageTokens) * args.cache.head_dim;
}

// Adds 32 keys and their values to `sums`. Lane l has the key at `offset`; bit l of `seen` says
// whether the row sees it.
SIMT_DEVICE void AddKeys(const AttentionArgs& args, const float* query, uint32_t seen,
                         int64_t offset, ExactRow& sums) {
  const int head_dim = args.cache.head_dim;
  float score = -Infinity();
  if ((seen >> Lane() & 1) != 0) {
    const float* key = static_cast<const float*>(args.cache.keys) + offset;
    score = 0;
    for (int d = 0; d < head_dim; ++d) score += query[d] * key[d];
    score *= args.scale;
  }
  const float peak = Max(sums.peak, WarpMax(score)), shrink = Exp(sums.peak - peak);
  const float weight = Exp(score - peak);
  sums.peak = peak;
  sums.weight = sums.weight * shrink + WarpSum(weight);
  for (float& value : sums.output) value *= shrink;
  for (; seen != 0; seen &= seen - 1) {
    const int lane = LowestBit(seen);
    const float factor = Shuffle(weight, lane);
    const float* value = static_cast<const float*>(args.cache.values) + Shuffle(offset, lane);
    SIMT_UNROLL
    for (int c = 0; c < ExactRow::kColumns; ++c) {
      const int d = Lane() + c * kWarp;
      if (d < head_dim) sums.output[c] += factor * value[d];
    }
  }
}

SIMT_KERNEL(kThreads, 1)
void ExactKernel(AttentionArgs args) {
  BeginKernel();
  const int task = Block().x * BlockWarps() + Warp(), head_dim = args.cache.head_dim;
  const int row = task / args.query_heads, head = task % args.query_heads;
  if (row >= args.rows.used[0]) return;
  const Span span = SpanAt(args, SpanIndexOf(args.rows, row));
  const int64_t at = static_cast<int64_t>(task) * head_dim;
  const int keys = KeysOf(args.rows, span, row - span.first_row);
  ExactRow sums;
  const auto add = [&](const void* queries, int begin, uint32_t seen) {
    if (seen == 0) return;
    const int token = TokenOf(args, span, row - span.first_row, Min(begin + Lane(), keys - 1));
    AddKeys(args, static_cast<const float*>(queries) + at, seen,
            KeyOffset(args, span, token, head / GroupOf(args)), sums);
  };
  const int sinks = Min(args.sinks, keys);
  for (int begin = 0; begin < sinks; begin += kWarp) {
    add(args.sink_query, begin, static_cast<uint32_t>(LowBits(sinks - begin)));
  }
  for (int begin = 0; begin < keys; begin += kWarp) {
    add(args.query, begin,
        static_cast<uint32_t>(SeenKeys(args, span, row - span.first_row, begin)));
  }
  float* output = static_cast<float*>(args.output) + at;
  SIMT_UNROLL
  for (int c = 0; c < ExactRow::kColumns; ++c) {
    const int d = Lane() + c * kWarp;
    if (d < head_dim) output[d] = sums.weight > 0 ? sums.output[c] / sums.weight : 0.0f;
  }
}

}  // namespace

void LaunchExact(const AttentionArgs& args, Stream& stream) {
  const int warps = kThreads / kWarp, tasks = args.rows.row_capacity * args.query_heads;
  simt::Launch(stream, ExactKernel, {{(tasks + warps - 1) / warps}, kThreads}, args);
}

}  // namespace bastion::kernels::cuda::attention
