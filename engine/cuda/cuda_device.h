// CudaDevice: models run on a GPU. Every operation is enqueued on a stream, and Run() records CUDA
// graphs.
#ifndef BASTION_ENGINE_CUDA_CUDA_DEVICE_H_
#define BASTION_ENGINE_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/device.h"

namespace bastion::nn {

struct GpuOptions {
  int ordinal = 0;
  std::string gemm_table = {};    // File of cuBLASLt's autotuning results. Empty: none.
  bool library_products = false;  // cuBLASLt multiplies all matrices, in bf16 too.
};

// Opens a GPU for one engine and reads the autotuning results, if the file exists. `host` must
// outlive the device. UNAVAILABLE if there is no such GPU, and the other errors of
// kernels::cuda::OpenDevice and Gemm::Load.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(const GpuOptions& options,
                                                                     const HostKernels& host);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_CUDA_CUDA_DEVICE_H_
