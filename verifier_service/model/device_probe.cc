#include "verifier_service/model/device_probe.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "kernels/ops/probe.h"

namespace bastion::verifier {
namespace {

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

DevicePeaks MeasurePeaks(const nn::Device& device, DType dtype) {
  return {kernels::ReadBandwidth(*device.pool),
          kernels::LinearRate(*device.backend, dtype, *device.pool)};
}

std::string DescribeDevice(const nn::Device& device) {
  return absl::StrCat(CpuModel(), ", ", device.pool->threads(), " threads, ",
                      device.backend->describe());
}

}  // namespace bastion::verifier
