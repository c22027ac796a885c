// Times attention with the heads of Qwen3-8B over short and long contexts, for one sequence with
// one row or a tree. Each launch uses a different layer. On sm_90, attention_sm80 times it with the
// instructions that all GPUs have.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/warpgroup.h"
#include "tests/kernels/cuda/attention/attention_shapes.h"
#include "tests/kernels/cuda/benchmark_rows.h"

namespace bastion::kernels::cuda {
namespace {

constexpr DType kType = DType::kBF16;
constexpr int kHeads = 32, kKvHeads = 8, kHeadDim = 128, kLayers = 36;

// How a part of the sweep launches attention.
struct Part {
  const char* name;
  int capability;
};

absl::Status MeasureSpan(const Part& part, DeviceBenchmark& bench, int context, int rows) {
  ASSIGN_OR_RETURN(BenchmarkRows step, BenchmarkRows::Make(bench, rows, context));
  const size_t page = size_t{kPageTokens} * kKvHeads * kHeadDim;
  const size_t cache = page * BenchmarkRows::Pages(rows, context);
  const size_t queries = size_t(rows) * kHeads * kHeadDim;
  const double cache_bytes = 2.0 * 2 * (context + rows) * kKvHeads * kHeadDim;
  const int layers = std::clamp(bench.OperandCount(cache_bytes), 2, kLayers);
  ASSIGN_OR_RETURN(Memory keys, bench.Random(kType, cache * layers, 1));
  ASSIGN_OR_RETURN(Memory values, bench.Random(kType, cache * layers, 1));
  ASSIGN_OR_RETURN(Memory query, bench.Random(kType, queries, 1));
  ASSIGN_OR_RETURN(Memory output, bench.Random(kType, queries, 1));
  const int chunks = AttentionChunks(context + rows);
  ASSIGN_OR_RETURN(Memory scratch,
                   Memory::OnDevice(AttentionScratchBytes(rows, kHeads, kHeadDim, chunks),
                                    "attention's partial results"));
  AttentionArgs args;
  args.rows = step.rows();
  args.query = query.as<void>();
  args.output = output.as<void>();
  args.query_heads = kHeads;
  args.scale = 1 / std::sqrt(static_cast<float>(kHeadDim));
  args.scratch = scratch.as<void>();
  args.max_chunks = chunks;
  args.multiprocessors = bench.device().multiprocessors;
  args.capability = part.capability;
  args.reads_ahead = true;
  // Two products of a row with each cached key. The few keys of the tree itself are ignored.
  const double operations = 4.0 * rows * kHeads * context * kHeadDim;
  const Figure figure = {part.name, absl::StrCat("32:8 heads of 128 over ", context), rows,
                         cache_bytes + 4.0 * static_cast<double>(queries), operations};
  return bench.Measure(figure, layers, [&](int layer) {
    args.cache = {kType, kKvHeads, kHeadDim, keys.as<uint16_t>() + cache * layer,
                  values.as<uint16_t>() + cache * layer};
    Attention(args, bench.stream());
  });
}

// Measures every test shape that is a single tree with this model's heads.
absl::Status MeasurePart(const Part& part, DeviceBenchmark& bench) {
  for (const AttentionShape& shape : AttentionShapes()) {
    const SpanShape& span = shape.spans.front();
    if (shape.query_heads != kHeads || shape.kv_heads != kKvHeads || shape.head_dim != kHeadDim ||
        shape.spans.size() > 1 || span.form != Form::kTree) {
      continue;
    }
    RETURN_IF_ERROR(MeasureSpan(part, bench, span.cached, span.rows));
  }
  return absl::OkStatus();
}

absl::Status MeasureAttention(DeviceBenchmark& bench) {
  return MeasurePart({"attention", bench.device().capability}, bench);
}

absl::Status MeasureAttentionOfSm80(DeviceBenchmark& bench) {
  if (!HasWarpgroups(bench.device().capability)) return absl::OkStatus();
  return MeasurePart({"attention_sm80", 80}, bench);
}

const bool registered = RegisterPart({6, "attention", MeasureAttention}) &&
                        RegisterPart({9, "attention_sm80", MeasureAttentionOfSm80});

}  // namespace
}  // namespace bastion::kernels::cuda
