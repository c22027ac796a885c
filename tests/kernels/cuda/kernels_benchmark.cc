// cuda_kernels_benchmark: times the engine's kernels on a GPU with the shapes of Qwen3-4B and 8B.
// Prints a table to stdout; with --out, also writes JSON.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/device_benchmark.h"

ABSL_FLAG(std::string, out, "", "JSON file for the measurements. Empty: only print the table");
ABSL_FLAG(std::string, only, "",
          "Comma-separated parts to run (device, gemm, rowwise, choose, attention). Empty: all");

namespace bastion::kernels::cuda {
namespace {

constexpr int kVocabulary = 151936;

// Launches a kernel with almost no work: one row and one column.
void LaunchTinyKernel(const Memory& memory, Stream& stream) {
  SiluMul({memory.as<float>(), memory.as<float>() + 2, DType::kF32, 1, 1}, stream);
}

absl::Status MeasureBandwidth(DeviceBenchmark& bench) {
  constexpr size_t kBytes = size_t{1} << 30;
  ASSIGN_OR_RETURN(Memory from, bench.Random(DType::kBF16, kBytes / 2, 1));
  ASSIGN_OR_RETURN(Memory to, Memory::OnDevice(kBytes, "a copy"));
  RETURN_IF_ERROR(bench.Measure(
      {"device", "copy of 1 GiB, read and written", 0, 2.0 * kBytes, 0}, 1,
      [&](int /*call*/) { bench.stream().Copy(to.as<void>(), from.as<void>(), kBytes); }));
  return bench.Measure({"device", "fill of 1 GiB", 0, 1.0 * kBytes, 0}, 1,
                       [&](int /*call*/) { bench.stream().Fill(to.as<void>(), 1, kBytes); });
}

// Measures, on the host, the time from the launch of a recorded kernel until its flag arrives in
// host memory.
absl::Status MeasureRoundTrip(DeviceBenchmark& bench, const Memory& scratch) {
  constexpr int kTrips = 1000;
  Stream& stream = bench.stream();
  ASSIGN_OR_RETURN(Memory flag, Memory::OnHost(sizeof(uint64_t), "a flag"));
  ASSIGN_OR_RETURN(Memory value, bench.Upload(std::vector<uint64_t>{1}));
  stream.BeginRecording();
  LaunchTinyKernel(scratch, stream);
  stream.Copy(flag.as<void>(), value.as<void>(), sizeof(uint64_t));
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, stream.EndRecording());
  std::vector<double> seconds;
  for (int trip = 0; trip < kTrips; ++trip) {
    *flag.as<uint64_t>() = 0;
    const auto begin = std::chrono::steady_clock::now();
    stream.Run(*graph);
    RETURN_IF_ERROR(stream.AwaitFlag(flag.as<uint64_t>(), 1));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    seconds.push_back(took.count());
    RETURN_IF_ERROR(stream.Synchronize());
  }
  bench.AddMeasurement({"device", "kernel and flag, round trip", 1},
                       SpreadOf(std::move(seconds), 1));
  return absl::OkStatus();
}

absl::Status MeasureDevice(DeviceBenchmark& bench) {
  RETURN_IF_ERROR(MeasureBandwidth(bench));
  ASSIGN_OR_RETURN(Memory scratch, bench.Random(DType::kF32, 64, 1));
  RETURN_IF_ERROR(bench.Measure({"device", "one of 100 tiny kernels", 1}, 100,
                                [&](int /*call*/) { LaunchTinyKernel(scratch, bench.stream()); }));
  return MeasureRoundTrip(bench, scratch);
}

struct Matrix {
  const char* name;
  int columns;
  int depth;
  bool accumulate;
};

absl::Status MeasureMatrix(DeviceBenchmark& bench, Gemm& gemm, const char* model,
                           const Matrix& matrix) {
  constexpr DType kType = DType::kBF16;
  const size_t elements = size_t(matrix.columns) * matrix.depth;
  const double weight_bytes = 2.0 * static_cast<double>(elements);
  std::vector<Memory> layers;
  std::vector<const void*> weights;
  for (int i = 0; i < bench.OperandCount(weight_bytes); ++i) {
    ASSIGN_OR_RETURN(Memory weight, bench.Random(kType, elements, 0.02f));
    weights.push_back(weight.as<void>());
    layers.push_back(std::move(weight));
  }
  ASSIGN_OR_RETURN(Memory x, bench.Random(kType, size_t{256} * matrix.depth, 1));
  ASSIGN_OR_RETURN(Memory y, bench.Random(DType::kF32, size_t{256} * matrix.columns, 1));
  for (const int rows : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256}) {
    const GemmShape shape = {kType, rows, matrix.columns, matrix.depth, matrix.accumulate};
    GemmArgs args = {shape, x.as<void>(), nullptr, y.as<float>()};
    RETURN_IF_ERROR(gemm.Prepare(args, weights, bench.stream()));
    const double outputs = 1.0 * rows * matrix.columns;
    const double bytes =
        weight_bytes + 2.0 * rows * matrix.depth + (matrix.accumulate ? 8 : 4) * outputs;
    const Figure figure = {
        "gemm", absl::StrCat(model, " ", matrix.name, " ", matrix.columns, " x ", matrix.depth),
        rows, bytes, 2 * outputs * matrix.depth};
    const int calls = 2 * static_cast<int>(weights.size());
    RETURN_IF_ERROR(bench.Measure(figure, calls, [&](int call) {
      args.weight = weights[call % weights.size()];
      gemm.Run(args, bench.stream());
    }));
  }
  return absl::OkStatus();
}

absl::Status MeasureGemm(DeviceBenchmark& bench) {
  struct Model {
    const char* name;
    Matrix matrices[5];
  };
  constexpr Model kModels[] = {{"Qwen3-4B",
                                {{"qkv", 6144, 2560, false},
                                 {"o", 2560, 4096, true},
                                 {"gate_up", 19456, 2560, false},
                                 {"down", 2560, 9728, true},
                                 {"head", kVocabulary, 2560, false}}},
                               {"Qwen3-8B",
                                {{"qkv", 6144, 4096, false},
                                 {"o", 4096, 4096, true},
                                 {"gate_up", 24576, 4096, false},
                                 {"down", 4096, 12288, true},
                                 {"head", kVocabulary, 4096, false}}}};
  ASSIGN_OR_RETURN(std::unique_ptr<Gemm> gemm, Gemm::Create());
  for (const Model& model : kModels) {
    for (const Matrix& matrix : model.matrices) {
      RETURN_IF_ERROR(MeasureMatrix(bench, *gemm, model.name, matrix));
    }
  }
  return absl::OkStatus();
}

absl::Status Run() {
  const std::vector<std::string> only =
      absl::StrSplit(absl::GetFlag(FLAGS_only), ',', absl::SkipEmpty());
  std::vector<BenchmarkPart> parts = BenchmarkParts();
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  for (const std::string& name : only) {
    if (std::none_of(parts.begin(), parts.end(),
                     [&](const BenchmarkPart& part) { return name == part.name; })) {
      return absl::InvalidArgumentError(absl::StrCat("--only: unknown part '", name, "'"));
    }
  }
  ASSIGN_OR_RETURN(std::unique_ptr<DeviceBenchmark> bench, DeviceBenchmark::Open());
  for (const BenchmarkPart& part : parts) {
    if (!only.empty() && std::find(only.begin(), only.end(), part.name) == only.end()) continue;
    RETURN_IF_ERROR(part.run(*bench));
  }
  const std::string out = absl::GetFlag(FLAGS_out);
  if (out.empty()) return absl::OkStatus();
  std::ofstream file(out);
  file << bench->Report().dump(1) << '\n';
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", out));
  return absl::OkStatus();
}

const bool registered =
    RegisterPart({1, "device", MeasureDevice}) && RegisterPart({2, "gemm", MeasureGemm});

}  // namespace
}  // namespace bastion::kernels::cuda

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {.summary = "Measures the engine's kernels on a GPU.",
                                     .usage = "[flags]",
                                     .example = "--only gemm"};
  return bastion::RunProgram(argc, argv, info,
                             [](const auto&) { return bastion::kernels::cuda::Run(); });
}
