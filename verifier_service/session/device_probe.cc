#include "verifier_service/session/device_probe.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/nn/tensor.h"

namespace bastion::verifier {
namespace {

// Best seconds of linear() with `rows` rows over a bf16 matrix [outputs, depth] of zeros.
double BestSeconds(const nn::Device& device, int rows, int outputs, int depth) {
  constexpr int kTries = 5;
  kernels::PackedMatrix matrix = {kernels::DType::kBF16, outputs, depth, nullptr};
  const nn::Tensor weight = nn::NewTensor({int64_t{outputs} * depth}, matrix.dtype).zero_();
  const nn::Tensor x = nn::NewTensor({rows, depth}, kernels::DType::kF32).zero_();
  const nn::Tensor y = nn::NewTensor({rows, outputs}, kernels::DType::kF32);
  matrix.data = weight.data_ptr();
  double best = 1e9;
  for (int i = 0; i < kTries; ++i) {
    StopWatch watch;
    device.backend->linear({x.data_ptr<float>(), matrix, y.data_ptr<float>(), rows, outputs, false},
                           *device.pool);
    best = std::min(best, absl::ToDoubleSeconds(watch.Lap()));
  }
  return best;
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
  constexpr int kWide = 8192, kDeep = 8192;  // 128 MiB in bf16: larger than any cache here.
  constexpr int kRows = 96, kSmallWide = 512, kSmallDeep = 512;
  DevicePeaks peaks;
  peaks.bytes_per_second = 2.0 * kWide * kDeep / BestSeconds(device, 1, kWide, kDeep);
  peaks.flops_per_second =
      2.0 * kRows * kSmallWide * kSmallDeep / BestSeconds(device, kRows, kSmallWide, kSmallDeep);
  return peaks;
}

std::string DescribeDevice(const nn::Device& device) {
  return absl::StrCat(CpuModel(), ", ", device.pool->threads(), " threads, ",
                      kernels::CpuInstructionSet());
}

}  // namespace bastion::verifier
