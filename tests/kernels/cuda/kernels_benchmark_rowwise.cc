// Times the kernels that work row by row, with the shapes of Qwen3-8B. The launches rotate through
// up to 64 sets of operands. Operands of few rows stay in the cache, as they do in a forward.
#include <algorithm>

#include "common/base/status.h"
#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/benchmark_rows.h"

namespace bastion::kernels::cuda {
namespace {

constexpr DType kType = DType::kBF16;
constexpr int kWidth = 4096, kInner = 12288, kHeads = 32, kKvHeads = 8, kHeadDim = 128;
constexpr int kStride = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr int kVocabulary = 151936, kPositions = 4096, kMaxSets = 64;

// Several operands of the same size in one allocation.
class Sets {
 public:
  Sets(Memory memory, size_t bytes, int count)
      : memory_(std::move(memory)), bytes_(bytes), count_(count) {}

  static absl::StatusOr<Sets> Make(DeviceBenchmark& bench, DType dtype, size_t elements) {
    const size_t bytes = Bytes(dtype, static_cast<int64_t>(elements));
    const int count = std::min(kMaxSets, bench.OperandCount(static_cast<double>(bytes)));
    ASSIGN_OR_RETURN(Memory memory, bench.Random(dtype, elements * count, 1));
    return Sets(std::move(memory), bytes, count);
  }
  template <typename T>
  [[nodiscard]] T* at(int call) const {
    return reinterpret_cast<T*>(memory_.as<char>() + bytes_ * (call % count_));
  }

 private:
  Memory memory_;
  size_t bytes_;
  int count_;
};

Figure FigureOf(const char* work, int rows, double bytes_per_row) {
  return {"rowwise", work, rows, rows * bytes_per_row, 0};
}

absl::Status MeasureEmbed(DeviceBenchmark& bench, int rows, const Memory& table) {
  ASSIGN_OR_RETURN(BenchmarkRows step, BenchmarkRows::Make(bench, rows, 0));
  ASSIGN_OR_RETURN(Sets y, Sets::Make(bench, DType::kF32, size_t(rows) * kWidth));
  return bench.Measure(FigureOf("embed", rows, 6.0 * kWidth), kMaxSets, [&](int call) {
    Embed({step.rows(), table.as<void>(), kType, y.at<float>(call), kWidth}, bench.stream());
  });
}

absl::Status MeasureNorm(DeviceBenchmark& bench, int rows, bool taps) {
  ASSIGN_OR_RETURN(Sets x, Sets::Make(bench, DType::kF32, size_t(rows) * kWidth));
  ASSIGN_OR_RETURN(Sets y, Sets::Make(bench, kType, size_t(rows) * kWidth));
  ASSIGN_OR_RETURN(Sets tap, Sets::Make(bench, kType, size_t(rows) * kWidth));
  ASSIGN_OR_RETURN(Memory weight, bench.Random(DType::kF32, kWidth, 1));
  const char* const work = taps ? "norm with a tap" : "norm";
  return bench.Measure(FigureOf(work, rows, (taps ? 8.0 : 6.0) * kWidth), kMaxSets, [&](int call) {
    RmsNorm({x.at<float>(call), weight.as<float>(), y.at<void>(call),
             taps ? tap.at<void>(call) : nullptr, kWidth, kType, rows, kWidth, 1e-6f},
            bench.stream());
  });
}

absl::Status MeasureQkv(DeviceBenchmark& bench, int rows) {
  ASSIGN_OR_RETURN(BenchmarkRows step, BenchmarkRows::Make(bench, rows, 1000));
  const size_t page = size_t{kPageTokens} * kKvHeads * kHeadDim;
  const size_t cache = page * BenchmarkRows::Pages(rows, 1000);
  ASSIGN_OR_RETURN(Sets input, Sets::Make(bench, DType::kF32, size_t(rows) * kStride));
  ASSIGN_OR_RETURN(Sets query, Sets::Make(bench, kType, size_t(rows) * kHeads * kHeadDim));
  ASSIGN_OR_RETURN(Memory keys, bench.Random(kType, cache, 1));
  ASSIGN_OR_RETURN(Memory values, bench.Random(kType, cache, 1));
  ASSIGN_OR_RETURN(Memory norm, bench.Random(DType::kF32, kHeadDim, 1));
  ASSIGN_OR_RETURN(Memory rope, bench.Random(DType::kF32, size_t{kPositions} * kHeadDim, 1));
  QkvArgs args;
  args.rows = step.rows();
  args.query_norm = args.key_norm = norm.as<float>();
  args.cosine_sine = rope.as<float>();
  args.cache = {kType, kKvHeads, kHeadDim, keys.as<void>(), values.as<void>()};
  args.query_heads = kHeads;
  args.stride = kStride;
  return bench.Measure(FigureOf("qkv", rows, 6.0 * kStride), kMaxSets, [&](int call) {
    args.query = input.at<float>(call);
    args.key = args.query + kHeads * kHeadDim;
    args.value = args.key + kKvHeads * kHeadDim;
    args.query_out = query.at<void>(call);
    Qkv(args, bench.stream());
  });
}

absl::Status MeasureSiluMul(DeviceBenchmark& bench, int rows) {
  ASSIGN_OR_RETURN(Sets gate_up, Sets::Make(bench, DType::kF32, size_t{2} * rows * kInner));
  ASSIGN_OR_RETURN(Sets y, Sets::Make(bench, kType, size_t(rows) * kInner));
  return bench.Measure(FigureOf("silu", rows, 10.0 * kInner), kMaxSets, [&](int call) {
    SiluMul({gate_up.at<float>(call), y.at<void>(call), kType, rows, kInner}, bench.stream());
  });
}

absl::Status MeasureRowwise(DeviceBenchmark& bench) {
  ASSIGN_OR_RETURN(Memory table, bench.Random(kType, size_t{kVocabulary} * kWidth, 1));
  for (const int rows : {1, 32, 256}) {
    RETURN_IF_ERROR(MeasureEmbed(bench, rows, table));
    RETURN_IF_ERROR(MeasureNorm(bench, rows, /*taps=*/false));
    RETURN_IF_ERROR(MeasureNorm(bench, rows, /*taps=*/true));
    RETURN_IF_ERROR(MeasureQkv(bench, rows));
    RETURN_IF_ERROR(MeasureSiluMul(bench, rows));
  }
  return absl::OkStatus();
}

const bool registered = RegisterPart({4, "rowwise", MeasureRowwise});

}  // namespace
}  // namespace bastion::kernels::cuda
