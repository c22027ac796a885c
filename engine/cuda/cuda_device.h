// CudaDevice: models run on a GPU. Every operation is enqueued on a stream, and Run() records CUDA
// graphs.
#ifndef BASTION_ENGINE_CUDA_CUDA_DEVICE_H_
#define BASTION_ENGINE_CUDA_CUDA_DEVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/device.h"

namespace bastion::nn {

// Opens GPU `ordinal` for one engine and reads the GEMM autotuning results from the file
// `gemm_table`, if it exists. Empty: no file. `host` must outlive the device. UNAVAILABLE if there
// is no such GPU, and the other errors of kernels::cuda::OpenDevice and Gemm::Load.
[[nodiscard]] absl::StatusOr<std::shared_ptr<Device>> OpenCudaDevice(int ordinal,
                                                                     const std::string& gemm_table,
                                                                     const HostKernels& host);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_CUDA_CUDA_DEVICE_H_
