#include "engine/cuda/gpu.h"

#include "common/base/status.h"

namespace bastion::cuda {

absl::StatusOr<Gpu> OpenGpu(int ordinal, const std::string& gemm_table) {
  Gpu gpu;
  ASSIGN_OR_RETURN(gpu.info, kernels::cuda::OpenDevice(ordinal));
  ASSIGN_OR_RETURN(gpu.stream, kernels::cuda::Stream::Create());
  ASSIGN_OR_RETURN(gpu.gemm, kernels::cuda::Gemm::Create());
  if (!gemm_table.empty()) {
    RETURN_IF_ERROR(gpu.gemm->Load(gemm_table));
  }
  return gpu;
}

absl::Status SaveGemmTable(const Gpu& gpu, const std::string& gemm_table) {
  return gemm_table.empty() ? absl::OkStatus() : gpu.gemm->Save(gemm_table);
}

}  // namespace bastion::cuda
