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

// A team of `threads` (0: one per core this process may use) on a backend: "cpu", the project's own
// kernels, or "torch", the portable ones. INVALID_ARGUMENT when `threads` is negative or absurd,
// for another backend, and for "torch" in a build without it.
[[nodiscard]] absl::StatusOr<LocalDevice> OpenLocalDevice(int threads,
                                                          const std::string& backend = "cpu");

// Where an engine runs, as --device says: "cpu", "cuda", or "auto", a GPU if this build has CUDA
// and this machine a GPU. A backend other than "cpu" is asked for in place of a GPU: with it "auto"
// means the CPU, and "cuda" is an INVALID_ARGUMENT.
enum class DeviceKind { kCpu, kCuda, kAuto };
[[nodiscard]] absl::StatusOr<DeviceKind> ParseDeviceKind(const std::string& name,
                                                         const std::string& backend = "cpu");

// "fp32", "bf16" or "int8". A target of int8 is a model of its own: text is exact against it.
[[nodiscard]] absl::StatusOr<DType> ParseDType(const std::string& name);
// The same, or "auto": int8 on a CPU that has instructions for it, else bf16. How a drafter is
// rounded changes guesses, never the text.
[[nodiscard]] absl::StatusOr<DType> ParseDraftDType(const std::string& name, bool on_gpu = false);

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_LOCAL_DEVICE_H_
