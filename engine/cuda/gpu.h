// Gpu: one GPU with the stream and the matrix products that an engine uses.
#ifndef BASTION_ENGINE_CUDA_GPU_H_
#define BASTION_ENGINE_CUDA_GPU_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::cuda {

struct Gpu {
  kernels::cuda::DeviceInfo info;
  std::unique_ptr<kernels::cuda::Stream> stream;
  std::unique_ptr<kernels::cuda::Gemm> gemm;
};

// Opens GPU `ordinal` and reads the GEMM autotuning results from the file `gemm_table`, if it
// exists. Errors: those of kernels::cuda::OpenDevice and Gemm::Load.
[[nodiscard]] absl::StatusOr<Gpu> OpenGpu(int ordinal, const std::string& gemm_table);
// Writes all autotuning results to the file `gemm_table`. Does nothing if the name is empty.
[[nodiscard]] absl::Status SaveGemmTable(const Gpu& gpu, const std::string& gemm_table);

}  // namespace bastion::cuda

#endif  // BASTION_ENGINE_CUDA_GPU_H_
