// Opens a GPU. A build with CUDA compiles open_gpu_cuda.cc; every other build compiles
// open_gpu_absent.cc.
#ifndef BASTION_ENGINE_PROGRAM_OPEN_GPU_H_
#define BASTION_ENGINE_PROGRAM_OPEN_GPU_H_

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/device.h"
#include "engine/program/local_device.h"

namespace bastion::nn {

// UNIMPLEMENTED in a build without CUDA; the errors of OpenCudaDevice.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Device>> OpenGpu(const DeviceChoice& choice,
                                                              const HostKernels& host);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_PROGRAM_OPEN_GPU_H_
