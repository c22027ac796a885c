// Turns the values of --device, --backend, --threads and --dtype into an nn::Device and types. Only
// main functions use it.
#ifndef BASTION_ENGINE_MODEL_LOCAL_DEVICE_H_
#define BASTION_ENGINE_MODEL_LOCAL_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/device.h"

namespace bastion::nn {

// Owns the threads behind EngineOptions::device.
struct LocalDevice {
  std::unique_ptr<kernels::ThreadPool> pool;
  Device device;
};

// Starts `threads` threads (0: one per core that this process may use) for `backend`: "cpu" (the
// project's own kernels) or "torch" (the portable kernels). INVALID_ARGUMENT if `threads` is out of
// range, if the backend is unknown, or for "torch" in a build without it.
[[nodiscard]] absl::StatusOr<LocalDevice> OpenLocalDevice(int threads,
                                                          const std::string& backend = "cpu");

// Where an engine runs: the value of --device. "auto" is a GPU if this build supports CUDA and the
// machine has one. A --backend other than "cpu" excludes the GPU: "auto" then means the CPU, and
// "cuda" is INVALID_ARGUMENT.
enum class DeviceKind { kCpu, kCuda, kAuto };
[[nodiscard]] absl::StatusOr<DeviceKind> ParseDeviceKind(const std::string& name,
                                                         const std::string& backend = "cpu");

// Parses "fp32", "bf16" or "int8". An int8 target is a model of its own: speculation reproduces the
// text of the int8 target, not that of the original weights.
[[nodiscard]] absl::StatusOr<DType> ParseDType(const std::string& name);
// Like ParseDType, but also accepts "auto": int8 on a CPU with int8 instructions, else bf16. The
// drafter's type changes the drafts and therefore the speed, but never the output.
[[nodiscard]] absl::StatusOr<DType> ParseDraftDType(const std::string& name, bool on_gpu = false);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_LOCAL_DEVICE_H_
