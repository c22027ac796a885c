// The device of this process, from what the flags of a program with an engine say. Used from main
// functions only.
#ifndef BASTION_COMMON_NN_LOCAL_DEVICE_H_
#define BASTION_COMMON_NN_LOCAL_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/nn/device.h"

namespace bastion::nn {

// Owns the threads behind EngineOptions::device.
struct LocalDevice {
  std::unique_ptr<kernels::ThreadPool> pool;
  Device device;
};

// A team of `threads` (0: one per core this process may use) on the best backend of this machine.
// INVALID_ARGUMENT when `threads` is negative or absurd.
[[nodiscard]] absl::StatusOr<LocalDevice> OpenLocalDevice(int threads);

// Where an engine runs, as --device says: "cpu", "cuda", or "auto", a GPU if this build has CUDA
// and this machine a GPU.
enum class DeviceKind { kCpu, kCuda, kAuto };
[[nodiscard]] absl::StatusOr<DeviceKind> ParseDeviceKind(const std::string& name);

// "fp32", "bf16" or "int8". A target of int8 is a model of its own: text is exact against it.
[[nodiscard]] absl::StatusOr<DType> ParseDType(const std::string& name);
// The same, or "auto": int8 on a CPU that has instructions for it, else bf16. How a drafter is
// rounded changes guesses, never the text.
[[nodiscard]] absl::StatusOr<DType> ParseDraftDType(const std::string& name, bool on_gpu = false);

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_LOCAL_DEVICE_H_
