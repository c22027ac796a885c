#include "absl/flags/flag.h"
#include "engine/program/flags.h"

ABSL_FLAG(std::string, device, "auto",
          "cpu, cuda or auto. auto: a GPU if this build supports CUDA and the machine has one.");
ABSL_FLAG(
    std::string, backend, "cpu",
    "CPU kernels: cpu (the project's own) or torch (portable, in builds with BASTION_TORCH).");
ABSL_FLAG(int, gpu, 0, "Index of the GPU among those that CUDA_VISIBLE_DEVICES makes visible.");
ABSL_FLAG(
    std::string, gemm, "exact",
    "Matrix products on a GPU: exact (in bf16, the project's own, whose result for a row does "
    "not depend on the other rows) or cublaslt.");
ABSL_FLAG(std::string, gemm_table, "",
          "Cache file for the autotuning of cuBLASLt. Empty: tune again at every start.");

namespace bastion::nn {

DeviceChoice DeviceFlags(int unset_threads) {
  return {.device = absl::GetFlag(FLAGS_device),
          .backend = absl::GetFlag(FLAGS_backend),
          .threads = ThreadsFlag(unset_threads),
          .gpu = absl::GetFlag(FLAGS_gpu),
          .gemm = absl::GetFlag(FLAGS_gemm),
          .gemm_table = absl::GetFlag(FLAGS_gemm_table)};
}

}  // namespace bastion::nn
