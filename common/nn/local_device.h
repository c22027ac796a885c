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

// "fp32" or "bf16".
[[nodiscard]] absl::StatusOr<kernels::DType> ParseDType(const std::string& name);
// Drafters may be rounded to int8 as well: that changes guesses, never the text. "auto" is int8
// where this CPU has instructions for it, else bf16.
[[nodiscard]] absl::StatusOr<kernels::DType> ParseDraftDType(const std::string& name);

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_LOCAL_DEVICE_H_
