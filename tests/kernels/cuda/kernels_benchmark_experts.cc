// Times the experts of Qwen3-30B-A3B in bf16: the choice of experts, their products, and the sum.
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/product/expert_product.h"
#include "tests/kernels/cuda/benchmark_rows.h"
#include "tests/kernels/cuda/device_benchmark.h"

namespace bastion::kernels::cuda {
namespace {

constexpr DType kType = DType::kBF16;
constexpr int kExperts = 128, kChosen = 8, kHidden = 2048, kInner = 768;
// The experts that one row chooses are 75 MB of a layer, so no layer stays in the cache.
constexpr int kLayers = 6;
constexpr int kCalls = 4 * kLayers;

struct ExpertMatrices {
  Memory gate_up[kLayers], down[kLayers];
};

absl::Status Allocate(DeviceBenchmark& bench, ExpertMatrices& matrices) {
  const size_t inner = size_t{kExperts} * kInner * kHidden;
  for (int layer = 0; layer < kLayers; ++layer) {
    ASSIGN_OR_RETURN(matrices.gate_up[layer], bench.Random(kType, 2 * inner, 0.02f));
    ASSIGN_OR_RETURN(matrices.down[layer], bench.Random(kType, inner, 0.02f));
  }
  return absl::OkStatus();
}

// The other memory of a layer, for some rows.
struct ExpertMemory {
  Memory logits, experts, weights, begins, sources, places, tiles, counts;
  Memory x, activation, outputs, hidden;
};

absl::Status Allocate(DeviceBenchmark& bench, int rows, ExpertMemory& memory) {
  const size_t choices = size_t(rows) * kChosen;
  const auto zeros = [](Memory& to, size_t bytes) -> absl::Status {
    ASSIGN_OR_RETURN(to, Memory::OnDevice(bytes, "a benchmark's experts"));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(zeros(memory.experts, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(zeros(memory.weights, choices * sizeof(float)));
  RETURN_IF_ERROR(zeros(memory.begins, (kExperts + 1) * sizeof(int32_t)));
  RETURN_IF_ERROR(zeros(memory.sources, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(zeros(memory.places, choices * sizeof(int32_t)));
  RETURN_IF_ERROR(
      zeros(memory.tiles, MaxExpertTiles(rows, kChosen, kExperts) * sizeof(ExpertRows)));
  RETURN_IF_ERROR(zeros(memory.counts, 3 * sizeof(int32_t)));
  RETURN_IF_ERROR(zeros(memory.activation, choices * kInner * sizeof(uint16_t)));
  RETURN_IF_ERROR(zeros(memory.outputs, choices * kHidden * sizeof(float)));
  RETURN_IF_ERROR(zeros(memory.hidden, size_t(rows) * kHidden * sizeof(float)));
  ASSIGN_OR_RETURN(memory.x, bench.Random(kType, size_t(rows) * kHidden, 1));
  ASSIGN_OR_RETURN(memory.logits, bench.Random(DType::kF32, size_t(rows) * kExperts, 1));
  return absl::OkStatus();
}

GroupedRouteArgs RouteOf(const ExpertMemory& memory, const BenchmarkRows& rows) {
  GroupedRouteArgs args;
  args.rows = rows.rows();
  args.route = {memory.logits.as<float>(),
                memory.experts.as<int32_t>(),
                memory.weights.as<float>(),
                args.rows.row_capacity,
                kExperts,
                kChosen,
                true};
  args.begins = memory.begins.as<int32_t>();
  args.sources = memory.sources.as<int32_t>();
  args.places = memory.places.as<int32_t>();
  args.touched = memory.counts.as<int32_t>();
  args.tiles = memory.tiles.as<ExpertRows>();
  args.tile_count = memory.counts.as<int32_t>() + 1;
  args.arrived = memory.counts.as<uint32_t>() + 2;
  return args;
}

// The product of gate and up if `gated`, else that of down.
ExpertProductArgs ProductOf(const ExpertMemory& memory, int rows, const Memory& matrices,
                            bool gated) {
  ExpertProductArgs args;
  args.weight = matrices.as<uint16_t>();
  args.tiles = memory.tiles.as<ExpertRows>();
  args.tile_count = memory.counts.as<int32_t>() + 1;
  args.tile_capacity = MaxExpertTiles(rows, kChosen, kExperts);
  args.chosen = kChosen;
  args.columns = gated ? 2 * kInner : kHidden;
  args.depth = gated ? kHidden : kInner;
  args.x = gated ? memory.x.as<uint16_t>() : memory.activation.as<uint16_t>();
  if (gated) {
    args.sources = memory.sources.as<int32_t>();
    args.activation = memory.activation.as<uint16_t>();
  } else {
    args.y = memory.outputs.as<float>();
  }
  return args;
}

void Multiply(DeviceBenchmark& bench, const ExpertProductArgs& args) {
  ExpertProduct(args, PlanExperts(args, bench.device()), bench.stream());
}

absl::Status MeasureRows(DeviceBenchmark& bench, const ExpertMatrices& matrices, int rows) {
  ASSIGN_OR_RETURN(const BenchmarkRows step, BenchmarkRows::Make(bench, rows, 0));
  ExpertMemory memory;
  RETURN_IF_ERROR(Allocate(bench, rows, memory));
  const GroupedRouteArgs route = RouteOf(memory, step);
  const CombineArgs combine = {memory.outputs.as<float>(),
                               memory.places.as<int32_t>(),
                               memory.weights.as<float>(),
                               memory.hidden.as<float>(),
                               rows,
                               kChosen,
                               kHidden};
  RETURN_IF_ERROR(bench.Measure({"experts", "route", rows, 0, 0}, kCalls,
                                [&](int) { Route(route, bench.stream()); }));
  std::vector<int32_t> touched(1);
  bench.stream().Copy(touched.data(), memory.counts.as<void>(), sizeof(int32_t));
  RETURN_IF_ERROR(bench.stream().Synchronize());
  const double choices = 1.0 * rows * kChosen;
  const auto product = [&](int call, bool gated) {
    const Memory& weights = (gated ? matrices.gate_up : matrices.down)[call % kLayers];
    return ProductOf(memory, rows, weights, gated);
  };
  for (const bool gated : {true, false}) {
    const ExpertProductArgs args = product(0, gated);
    const double weights = 1.0 * args.columns * args.depth;
    const std::string name = absl::StrCat("Qwen3-30B-A3B ", gated ? "gate_up " : "down ",
                                          args.columns, " x ", args.depth);
    const Figure figure = {"experts", name, rows, 2 * weights * touched[0], 2 * weights * choices};
    RETURN_IF_ERROR(
        bench.Measure(figure, kCalls, [&](int call) { Multiply(bench, product(call, gated)); }));
  }
  const Figure whole = {"experts", "Qwen3-30B-A3B whole layer", rows,
                        6.0 * kInner * kHidden * touched[0], 6.0 * kInner * kHidden * choices};
  return bench.Measure(whole, kCalls, [&](int call) {
    Route(route, bench.stream());
    for (const bool gated : {true, false}) Multiply(bench, product(call, gated));
    Combine(combine, bench.stream());
  });
}

absl::Status MeasureExperts(DeviceBenchmark& bench) {
  ExpertMatrices matrices;
  RETURN_IF_ERROR(Allocate(bench, matrices));
  for (const int rows : {1, 4, 16, 64, 256}) RETURN_IF_ERROR(MeasureRows(bench, matrices, rows));
  return absl::OkStatus();
}

const bool registered = RegisterPart({7, "experts", MeasureExperts});

}  // namespace
}  // namespace bastion::kernels::cuda
