#include "engine/host/streaming_attention.h"

#include <algorithm>
#include <numeric>

#include "common/base/check.h"
#include "engine/model/page_pool.h"

namespace bastion::nn {
namespace {

using kernels::kPageTokens;

constexpr int kGatherGrain = 16;  // Tokens.

// A layer of scratch memory for `tokens` tokens, with slots 0, 1, … in fp32.
kernels::KvLayer ScratchLayer(const kernels::KvLayer& cache, int tokens,
                              StreamingScratch& scratch) {
  kernels::KvLayer layer = cache;
  layer.dtype = DType::kF32;
  const int pages = PagesFor(tokens);
  const auto width = static_cast<int64_t>(layer.page_elements());
  layer.keys = scratch.keys.Reserve(pages, width);
  layer.values = scratch.values.Reserve(pages, width);
  scratch.pages.resize(pages);
  scratch.slots.resize(tokens);
  std::iota(scratch.pages.begin(), scratch.pages.end(), 0);
  std::iota(scratch.slots.begin(), scratch.slots.end(), 0);
  return layer;
}

// Sets scratch.tokens to the tokens that row `i` of `span` sees, in the order of their positions.
void FindTokens(const kernels::AttentionSpan& span, int i, const StreamingWindow& window,
                StreamingScratch& scratch) {
  std::vector<int32_t> rows;  // The visible rows of the span, as tokens.
  if (span.mask == kernels::RowMask::kCausal) {
    rows.resize(i + 1);
    std::iota(rows.begin(), rows.end(), span.cached);
  } else {
    const uint64_t* bits = span.ancestors + static_cast<size_t>(i) * span.words;
    for (int j = 0; j <= i; ++j) {
      if ((bits[j / 64] >> (j % 64) & 1) != 0) rows.push_back(span.cached + j);
    }
  }
  const int length = span.cached + static_cast<int>(rows.size());  // The row's own text.
  const int sinks = std::min(window.sinks, length);
  scratch.tokens.clear();
  const auto add = [&](int begin, int end) {
    for (int t = begin; t < end; ++t) {
      scratch.tokens.push_back(t < span.cached ? t : rows[t - span.cached]);
    }
  };
  add(0, sinks);
  add(std::max(sinks, length - window.tokens), length);
}

// Copies the keys and values of scratch.tokens to [n, G, D] each.
template <typename KV>
void Gather(const HostKernels& host, const kernels::KvLayer& cache,
            const kernels::AttentionSpan& span, StreamingScratch& scratch) {
  const auto count = static_cast<int64_t>(scratch.tokens.size());
  const int dim = cache.head_dim, width = cache.kv_heads * dim;
  float* keys = scratch.gathered_keys.Reserve(count, width);
  float* values = scratch.gathered_values.Reserve(count, width);
  const auto load = [](KV element) {
    if constexpr (sizeof(KV) == sizeof(float)) {
      return element;
    } else {
      return kernels::Bf16ToFloat(element);
    }
  };
  host.pool->ParallelFor(count, kGatherGrain, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int token = scratch.tokens[n], offset = token % kPageTokens;
      const size_t page = span.pages[token / kPageTokens] * cache.page_elements();
      for (int g = 0; g < cache.kv_heads; ++g) {
        const size_t head = page + static_cast<size_t>(g) * dim * kPageTokens;
        const KV* key = static_cast<const KV*>(cache.keys) + head + offset;
        const KV* value =
            static_cast<const KV*>(cache.values) + head + static_cast<size_t>(offset) * dim;
        for (int d = 0; d < dim; ++d) {
          const int64_t at = n * width + static_cast<int64_t>(g) * dim + d;
          keys[at] = load(key[static_cast<size_t>(d) * kPageTokens]);
          values[at] = load(value[d]);
        }
      }
    }
  });
}

void AttendRow(const HostKernels& host, const kernels::QkvArgs& qkv, kernels::AttentionArgs args,
               int row, StreamingScratch& scratch) {
  const auto count = static_cast<int>(scratch.tokens.size());
  const kernels::KvLayer cache = ScratchLayer(args.cache, count, scratch);
  scratch.positions.resize(count);
  std::iota(scratch.positions.begin(), scratch.positions.end(), 0);
  kernels::QkvArgs rotate;
  const int width = cache.kv_heads * cache.head_dim;
  rotate.key = scratch.gathered_keys.Reserve(count, width);  // As Gather left them.
  rotate.value = scratch.gathered_values.Reserve(count, width);
  rotate.cosine_sine = qkv.cosine_sine;
  rotate.rotary_dims = qkv.rotary_dims;
  rotate.positions = scratch.positions.data();
  rotate.slots = scratch.slots.data();
  rotate.cache = cache;
  rotate.rows = count;
  rotate.kv_stride = width;
  host.backend->qkv(rotate, *host.pool);
  kernels::AttentionSpan span;
  span.first_row = row;
  span.rows = 1;
  span.cached = count - 1;
  span.pages = scratch.pages.data();
  args.cache = cache;
  args.spans = &span;
  args.span_count = 1;
  host.backend->attention(args, *host.pool);
}

}  // namespace

void StreamingQkv(const HostKernels& host, const StreamingWindow& window, kernels::QkvArgs args,
                  StreamingScratch& scratch) {
  CHECK(args.query != nullptr);
  const int32_t* text_positions = args.positions;
  float* const query = args.query;
  // At position 0, the rotation changes nothing.
  scratch.positions.assign(args.rows, 0);
  args.positions = scratch.positions.data();
  args.query = nullptr;
  host.backend->qkv(args, *host.pool);
  for (int row = 0; row < args.rows; ++row) {
    scratch.positions[row] = std::min(text_positions[row], window.sinks + window.tokens - 1);
  }
  // The keys of this call are not read.
  args.query = query;
  args.cache = ScratchLayer(args.cache, args.rows, scratch);
  args.slots = scratch.slots.data();
  host.backend->qkv(args, *host.pool);
}

void StreamingAttention(const HostKernels& host, const StreamingWindow& window,
                        const kernels::QkvArgs& qkv, kernels::AttentionArgs args,
                        StreamingScratch& scratch) {
  CHECK_EQ(args.window, 0);
  const kernels::AttentionSpan* const spans = args.spans;
  for (int s = 0; s < args.span_count; ++s) {
    const kernels::AttentionSpan& span = spans[s];
    CHECK(span.mask != kernels::RowMask::kFull && span.earlier == 0);
    for (int i = 0; i < span.rows; ++i) {
      FindTokens(span, i, window, scratch);
      if (args.cache.dtype == DType::kF32) {
        Gather<float>(host, args.cache, span, scratch);
      } else {
        Gather<uint16_t>(host, args.cache, span, scratch);
      }
      AttendRow(host, qkv, args, span.first_row + i, scratch);
    }
  }
}

}  // namespace bastion::nn
