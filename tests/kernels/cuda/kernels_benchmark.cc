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
#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/device_benchmark.h"

ABSL_FLAG(std::string, out, "", "JSON file for the measurements. Empty: only print the table");
ABSL_FLAG(
    std::string, only, "",
    "Comma-separated parts to run (device, gemm, product, rowwise, choose, attention). Empty: all");

namespace bastion::kernels::cuda {
namespace {

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

const bool registered = RegisterPart({1, "device", MeasureDevice});

}  // namespace
}  // namespace bastion::kernels::cuda

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {.summary = "Measures the engine's kernels on a GPU.",
                                     .usage = "[flags]",
                                     .example = "--only gemm"};
  return bastion::RunProgram(argc, argv, info,
                             [](const auto&) { return bastion::kernels::cuda::Run(); });
}
