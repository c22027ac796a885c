// Turns the values of --device, --backend, --threads, --gpu, --gemm and --gemm_table into a
// device. Only main functions and tools use it.
#ifndef BASTION_ENGINE_PROGRAM_LOCAL_DEVICE_H_
#define BASTION_ENGINE_PROGRAM_LOCAL_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/device.h"

namespace bastion::nn {

// Where an engine runs.
struct DeviceChoice {
  // "cpu", "cuda" or "auto": a GPU if this build supports CUDA and the machine has one, else the
  // CPU. With a --backend other than "cpu", "auto" means the CPU, and "cuda" is INVALID_ARGUMENT.
  std::string device = "cpu";
  std::string backend = "cpu";  // "cpu" (the project's own kernels) or "torch" (the portable ones).
  int threads = 0;              // 0: one per core that this process may use.
  int gpu = 0;                  // Index of the GPU.
  std::string gemm = "exact";   // "exact" or "cublaslt" (nn::GpuOptions::library_products).
  std::string gemm_table = {};  // Cache file for GEMM autotuning. Empty: tune at every start.
};

// Owns the threads behind a device.
struct LocalDevice {
  std::unique_ptr<kernels::ThreadPool> pool;
  std::shared_ptr<Device> device;
};

// INVALID_ARGUMENT if the number of threads is out of range, if a name is unknown, if gemm_table is
// no regular file, or for "torch" in a build without it. UNIMPLEMENTED for "cuda" in a build
// without CUDA; UNAVAILABLE if there is no such GPU. "auto" logs why it chose the CPU.
[[nodiscard]] absl::StatusOr<LocalDevice> OpenLocalDevice(const DeviceChoice& choice);
[[nodiscard]] inline absl::StatusOr<LocalDevice> OpenLocalDevice(
    int threads, const std::string& backend = "cpu") {
  return OpenLocalDevice({.backend = backend, .threads = threads});
}

// Another device for a second engine, with the threads of `local`, because a GPU serves one engine.
// A CPU serves both: returns local.device.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Device>> OpenAnother(const LocalDevice& local,
                                                                  const DeviceChoice& choice);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_PROGRAM_LOCAL_DEVICE_H_
