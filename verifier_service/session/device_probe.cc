#include "verifier_service/session/device_probe.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/nn/tensor.h"

namespace bastion::verifier {
namespace {

// Best seconds of linear() with `rows` rows over a bf16 matrix [outputs, depth] of zeros.
double BestSeconds(const nn::Device& device, int rows, int outputs, int depth) {
  constexpr int kTries = 10;
  kernels::PackedMatrix matrix = {kernels::DType::kBF16, outputs, depth, nullptr};
  const nn::Tensor weight =
      nn::NewPages({int64_t{outputs} * depth}, matrix.dtype, nn::Paging::kHuge);
  const nn::Tensor x = nn::NewTensor({rows, depth}, kernels::DType::kF32).zero_();
  const nn::Tensor y = nn::NewTensor({rows, outputs}, kernels::DType::kF32);
  // Most of the probe's time goes into the first touch of this memory: by all threads.
  char* const begin = static_cast<char*>(weight.data_ptr());
  device.pool->ParallelFor(matrix.panels(), [&](int64_t first, int64_t last) {
    std::memset(begin + first * matrix.panel_bytes(), 0, (last - first) * matrix.panel_bytes());
  });
  matrix.data = begin;
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    StopWatch watch;
    device.backend->linear({x.data_ptr<float>(), matrix, y.data_ptr<float>(), rows, outputs, false},
                           *device.pool);
    best = std::min(best, absl::ToDoubleSeconds(watch.Lap()));
  }
  return best;
}

// Columns of a bf16 matrix of `depth` rows that does not fit into the caches.
int ColumnsBeyondCaches(int depth) {
  constexpr int64_t kLeast = int64_t{64} << 20;
  const int64_t bytes = std::max(kLeast, 2 * int64_t{sysconf(_SC_LEVEL3_CACHE_SIZE)});
  return static_cast<int>(bytes / (2 * depth * kernels::kPanel)) * kernels::kPanel;
}

std::string CpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown CPU";
}

}  // namespace

DevicePeaks MeasurePeaks(const nn::Device& device) {
  constexpr int kDeep = 8192, kRows = 96, kSmallWide = 512, kSmallDeep = 512;
  const int wide = ColumnsBeyondCaches(kDeep);
  DevicePeaks peaks;
  peaks.bytes_per_second = 2.0 * wide * kDeep / BestSeconds(device, 1, wide, kDeep);
  peaks.flops_per_second =
      2.0 * kRows * kSmallWide * kSmallDeep / BestSeconds(device, kRows, kSmallWide, kSmallDeep);
  return peaks;
}

std::string DescribeDevice(const nn::Device& device) {
  return absl::StrCat(CpuModel(), ", ", device.pool->threads(), " threads, ",
                      kernels::CpuInstructionSet());
}

}  // namespace bastion::verifier
