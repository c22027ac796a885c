#include "common/cuda/gpu.h"

#include "common/base/status.h"

namespace bastion::cuda {

absl::StatusOr<Gpu> OpenGpu(int ordinal) {
  Gpu gpu;
  ASSIGN_OR_RETURN(gpu.info, kernels::cuda::OpenDevice(ordinal));
  ASSIGN_OR_RETURN(gpu.stream, kernels::cuda::Stream::Create());
  ASSIGN_OR_RETURN(gpu.gemm, kernels::cuda::Gemm::Create());
  return gpu;
}

}  // namespace bastion::cuda
