// Applies the RMS norm, if there is one, and the rotary embedding to the query and key heads.
// Writes the queries to query_out, and the keys and the plain values to the cache. Attention with
// sinks has two queries per row and head.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/product/add_ranges.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 128;
constexpr int kMaxPairs = 8;  // Rotated pairs per lane, so head_dim <= 512.

// Offset of slot `slot` of kv head `head` in a layer's keys or values, in elements.
SIMT_DEVICE int64_t RowOffset(const DeviceKvLayer& cache, int64_t slot, int head) {
  const int64_t page = slot / kPageTokens, token = slot % kPageTokens;
  return ((page * cache.kv_heads + head) * kPageTokens + token) * cache.head_dim;
}

// The inputs that all heads of a row share.
struct Rotation {
  const float* cosine_sine;  // [rotated]
  int head_dim;              // D
  int rotated;               // The leading elements that rotate, an even number up to D.
  float epsilon;
};

// What a kernel is compiled for. The common case, with norms and heads that rotate as a whole,
// needs the fewest registers.
template <bool normed, bool partial>
struct Form {
  static constexpr bool kNormed = normed;
  static constexpr bool kPartial = partial;  // Only a part of a head rotates.
};

// One warp adds the ranges of x [D], normalizes it and multiplies it by `weight`, if F says so,
// rotates its first d elements and writes it to `out`. Lane l holds the pairs (i, i + d/2) for i =
// l, l + 32, ….
template <typename F, typename Out>
SIMT_DEVICE void NormAndRotate(const Sums& x, const float* weight, const Rotation& rotation,
                               Out* out) {
  const int half = rotation.rotated / 2;
  float first[kMaxPairs], second[kMaxPairs], squares = 0;
  SIMT_UNROLL
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = Lane() + p * kWarp;
    first[p] = i < half ? x.at[i] : 0.0f;
    second[p] = i < half ? x.at[i + half] : 0.0f;
  }
  SIMT_ROLL
  for (int range = 1; range < x.ranges; ++range) {
    const float* more = x.at + range * x.stride;
    SIMT_UNROLL
    for (int p = 0; p < kMaxPairs; ++p) {
      const int i = Lane() + p * kWarp;
      if (i < half) first[p] += more[i];
      if (i < half) second[p] += more[i + half];
    }
  }
  SIMT_UNROLL
  for (int p = 0; p < kMaxPairs; ++p) squares += first[p] * first[p] + second[p] * second[p];
  const int rest = F::kPartial ? rotation.rotated + Lane() : rotation.head_dim;
  SIMT_ROLL
  for (int i = rest; i < rotation.head_dim; i += kWarp) {
    const float value = AddRanges(x, i);
    squares += value * value;
  }
  const float mean = WarpSum(squares) / static_cast<float>(rotation.head_dim);
  const float scale = ReciprocalSqrt(mean + rotation.epsilon);
  const auto normed = [&](float value, int i) {
    return F::kNormed ? value * scale * weight[i] : value;
  };
  SIMT_UNROLL
  for (int p = 0; p < kMaxPairs; ++p) {
    const int i = Lane() + p * kWarp;
    if (i >= half) break;
    const float a = normed(first[p], i), b = normed(second[p], i + half);
    const float cosine = rotation.cosine_sine[i], sine = rotation.cosine_sine[i + half];
    Store(out + i, a * cosine - b * sine);
    Store(out + i + half, b * cosine + a * sine);
  }
  SIMT_ROLL
  for (int i = rest; i < rotation.head_dim; i += kWarp) {
    Store(out + i, normed(AddRanges(x, i), i));
  }
}

// The query heads that the kernel writes for a row.
SIMT_ANYWHERE int QueryHeads(const QkvArgs& args) {
  if (args.query == nullptr) return 0;
  return args.sink_query_out == nullptr ? args.query_heads : 2 * args.query_heads;
}

// One warp per (row, head): first the query heads, then those for sinks, then the key heads, then
// the value heads.
template <typename Stored, typename F>
SIMT_KERNEL(kThreads, 1)
void QkvKernel(QkvArgs args) {
  BeginKernel();
  const int row = Block().x, head_dim = args.cache.head_dim, kv_heads = args.cache.kv_heads;
  const int queries = QueryHeads(args);
  const int task = Block().y * BlockWarps() + Warp();
  if (task >= queries + 2 * kv_heads) return;
  const int64_t begin = static_cast<int64_t>(row) * args.stride;
  const bool for_sinks = task >= args.query_heads && task < queries;
  const int64_t position =
      for_sinks ? Min(args.rows.positions[row], args.last_place) : args.rows.positions[row];
  const int rotated = args.rotary_dims > 0 ? args.rotary_dims : head_dim;
  const Rotation rotation = {args.cosine_sine + position * rotated, head_dim, rotated,
                             args.epsilon};
  const auto sums = [&](const float* at) {
    return Sums{at + begin, args.ranges, args.range_stride};
  };
  if (task < queries) {
    const int head = for_sinks ? task - args.query_heads : task;
    Stored* out = static_cast<Stored*>(for_sinks ? args.sink_query_out : args.query_out) +
                  (static_cast<int64_t>(row) * args.query_heads + head) * head_dim;
    NormAndRotate<F>(sums(args.query + head * head_dim), args.query_norm, rotation, out);
    return;
  }
  const int head = (task - queries) % kv_heads;
  const int64_t to = RowOffset(args.cache, args.rows.slots[row], head);
  if (task < queries + kv_heads) {
    NormAndRotate<F>(sums(args.key + head * head_dim), args.key_norm, rotation,
                     static_cast<Stored*>(args.cache.keys) + to);
    return;
  }
  const Sums value = sums(args.value + head * head_dim);
  for (int i = Lane(); i < head_dim; i += kWarp) {
    Store(static_cast<Stored*>(args.cache.values) + to + i, AddRanges(value, i));
  }
}

template <typename Stored>
void LaunchQkv(const QkvArgs& args, const LaunchShape& shape, Stream& stream) {
  const bool normed = args.key_norm != nullptr;
  const bool partial = args.rotary_dims > 0 && args.rotary_dims < args.cache.head_dim;
  if (normed && partial) {
    Launch(stream, QkvKernel<Stored, Form<true, true>>, shape, args);
  } else if (normed) {
    Launch(stream, QkvKernel<Stored, Form<true, false>>, shape, args);
  } else if (partial) {
    Launch(stream, QkvKernel<Stored, Form<false, true>>, shape, args);
  } else {
    Launch(stream, QkvKernel<Stored, Form<false, false>>, shape, args);
  }
}

}  // namespace

void Qkv(const QkvArgs& args, Stream& stream) {
  const int heads = QueryHeads(args) + 2 * args.cache.kv_heads;
  const int warps = kThreads / kWarp;
  const LaunchShape shape = {{args.rows.row_capacity, (heads + warps - 1) / warps}, kThreads};
  if (args.cache.dtype == DType::kF32) {
    LaunchQkv<float>(args, shape, stream);
  } else {
    LaunchQkv<uint16_t>(args, shape, stream);
  }
}

}  // namespace bastion::kernels::cuda
