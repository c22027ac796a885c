#include "engine/cuda/cuda_device.h"
#include "engine/program/open_gpu.h"

namespace bastion::nn {

absl::StatusOr<std::shared_ptr<Device>> OpenGpu(const DeviceChoice& choice,
                                                const HostKernels& host) {
  return OpenCudaDevice({choice.gpu, choice.gemm_table, choice.gemm == "cublaslt"}, host);
}

}  // namespace bastion::nn
