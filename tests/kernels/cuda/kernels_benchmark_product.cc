// Times the matrix products of Qwen3-4B and 8B: cuBLASLt's (gemm) and the project's own (product),
// also with int8 weights (product_int8). On sm_90, product_sm80 times those of bf16 weights with
// the instructions that all GPUs have.
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/product/int8_rows.h"
#include "kernels/cuda/product/product.h"
#include "kernels/cuda/simt/warpgroup.h"
#include "tests/kernels/cuda/device_benchmark.h"

namespace bastion::kernels::cuda {
namespace {

constexpr DType kType = DType::kBF16;
constexpr int kVocabulary = 151936;
constexpr int kMaxRows = 2048;

struct Matrix {
  const char* name;
  int columns;
  int depth;
  bool accumulate;
  bool gated = false;
};

struct Model {
  const char* name;
  Matrix matrices[5];
};
constexpr Model kModels[] = {{"Qwen3-4B",
                              {{"qkv", 6144, 2560, false},
                               {"o", 2560, 4096, true},
                               {"gate_up", 19456, 2560, false, true},
                               {"down", 2560, 9728, true},
                               {"head", kVocabulary, 2560, false}}},
                             {"Qwen3-8B",
                              {{"qkv", 6144, 4096, false},
                               {"o", 4096, 4096, true},
                               {"gate_up", 24576, 4096, false, true},
                               {"down", 4096, 12288, true},
                               {"head", kVocabulary, 4096, false}}}};

// The operands of a matrix, with enough weights that none stays in the cache.
struct Operands {
  std::vector<Memory> layers;
  std::vector<const void*> weights;
  Memory x, y;
};

absl::StatusOr<Operands> MakeOperands(DeviceBenchmark& bench, const Matrix& matrix,
                                      WeightFormat format) {
  const size_t bytes = format == WeightFormat::kInt8
                           ? Int8MatrixBytes(matrix.columns, matrix.depth)
                           : Bytes(format, int64_t{matrix.columns} * matrix.depth);
  Operands operands;
  for (int i = 0; i < bench.OperandCount(static_cast<double>(bytes)); ++i) {
    // Times do not depend on the values, so int8 weights are these bytes, too.
    ASSIGN_OR_RETURN(Memory weight, bench.Random(kType, bytes / Bytes(kType, 1), 0.02f));
    operands.weights.push_back(weight.as<void>());
    operands.layers.push_back(std::move(weight));
  }
  ASSIGN_OR_RETURN(operands.x, bench.Random(kType, size_t{kMaxRows} * matrix.depth, 1));
  ASSIGN_OR_RETURN(operands.y, bench.Random(DType::kF32, size_t{kMaxRows} * matrix.columns, 1));
  return operands;
}

// Calls measure(name, matrix, operands) for all matrices, with weights in `format`.
template <typename Measure>
absl::Status ForEachMatrix(DeviceBenchmark& bench, WeightFormat format, const Measure& measure) {
  for (const Model& model : kModels) {
    for (const Matrix& matrix : model.matrices) {
      ASSIGN_OR_RETURN(const Operands operands, MakeOperands(bench, matrix, format));
      RETURN_IF_ERROR(measure(
          absl::StrCat(model.name, " ", matrix.name, " ", matrix.columns, " x ", matrix.depth),
          matrix, operands));
    }
  }
  return absl::OkStatus();
}

// A matrix in a part of the sweep.
struct Work {
  const char* part;
  std::string name;
  const Matrix& matrix;
  const Operands& operands;
  WeightFormat format = WeightFormat::kBF16;
};

// Measures multiply(rows, weight) for several numbers of rows, after prepare(rows).
template <typename Prepare, typename Multiply>
absl::Status MeasureWork(DeviceBenchmark& bench, const Work& work, const Prepare& prepare,
                         const Multiply& multiply) {
  const Matrix& matrix = work.matrix;
  const double weight_bytes = BytesPerWeight(work.format) * matrix.columns * matrix.depth;
  for (const int rows : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, kMaxRows}) {
    RETURN_IF_ERROR(prepare(rows));
    const double outputs = 1.0 * rows * matrix.columns;
    const double bytes =
        weight_bytes + 2.0 * rows * matrix.depth + (matrix.accumulate ? 8 : 4) * outputs;
    const Figure figure = {work.part, work.name, rows, bytes, 2 * outputs * matrix.depth};
    const std::vector<const void*>& weights = work.operands.weights;
    RETURN_IF_ERROR(bench.Measure(figure, 2 * static_cast<int>(weights.size()), [&](int call) {
      multiply(rows, weights[call % weights.size()]);
    }));
  }
  return absl::OkStatus();
}

absl::Status MeasureGemm(DeviceBenchmark& bench) {
  ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, Gemm::Create());
  return ForEachMatrix(
      bench, WeightFormat::kBF16,
      [&](const std::string& name, const Matrix& matrix, const Operands& operands) {
        const auto args = [&](int rows, const void* weight) {
          const GemmShape shape = {kType, rows, matrix.columns, matrix.depth, matrix.accumulate};
          return GemmArgs{shape, operands.x.as<void>(), weight, operands.y.as<float>()};
        };
        return MeasureWork(
            bench, {"gemm", name, matrix, operands},
            [&](int rows) {
              return gemm->Prepare(args(rows, nullptr), operands.weights, bench.stream());
            },
            [&](int rows, const void* weight) { gemm->Run(args(rows, weight), bench.stream()); });
      });
}

// Without the addition of ranges, which the next kernel of a step makes.
absl::Status MeasureProductOf(const char* part, WeightFormat format, const DeviceInfo& device,
                              DeviceBenchmark& bench) {
  ASSIGN_OR_RETURN(const Memory sums,
                   Memory::OnDevice(MaxProductSums() * sizeof(float), "the sums of a product"));
  return ForEachMatrix(
      bench, format, [&](const std::string& name, const Matrix& matrix, const Operands& operands) {
        const auto multiply = [&](int rows, const void* weight) {
          ProductArgs args;
          args.x = operands.x.as<uint16_t>();
          args.weight = weight;
          if (format == WeightFormat::kInt8) {
            args.scales = Int8Scales(weight, matrix.columns, matrix.depth);
          }
          args.rows = rows;
          args.columns = matrix.columns;
          args.depth = matrix.depth;
          args.y = operands.y.as<float>();
          if (matrix.gated) args.activation = operands.y.as<uint16_t>();
          const ProductPlan plan = PlanProduct(args, device);
          if (plan.split) args.y = sums.as<float>();
          static_cast<void>(Product(args, plan, bench.stream()));
        };
        return MeasureWork(
            bench, {part, name, matrix, operands, format}, [](int) { return absl::OkStatus(); },
            multiply);
      });
}

absl::Status MeasureProduct(DeviceBenchmark& bench) {
  return MeasureProductOf("product", WeightFormat::kBF16, bench.device(), bench);
}

absl::Status MeasureProductOfInt8(DeviceBenchmark& bench) {
  return MeasureProductOf("product_int8", WeightFormat::kInt8, bench.device(), bench);
}

absl::Status MeasureProductOfSm80(DeviceBenchmark& bench) {
  DeviceInfo sm80 = bench.device();
  if (!HasWarpgroups(sm80.capability)) return absl::OkStatus();
  sm80.capability = 80;
  return MeasureProductOf("product_sm80", WeightFormat::kBF16, sm80, bench);
}

const bool registered = RegisterPart({2, "gemm", MeasureGemm}) &&
                        RegisterPart({3, "product", MeasureProduct}) &&
                        RegisterPart({8, "product_sm80", MeasureProductOfSm80}) &&
                        RegisterPart({9, "product_int8", MeasureProductOfInt8});

}  // namespace
}  // namespace bastion::kernels::cuda
