#include "engine/program/local_device.h"

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/cores.h"
#include "common/base/data_file.h"
#include "common/base/status.h"
#include "engine/host/host_device.h"
#include "engine/program/open_gpu.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/torch/portable_backend.h"

namespace bastion::nn {
namespace {

absl::StatusOr<const kernels::Backend*> FindBackend(const std::string& name) {
  if (name == "cpu") return &kernels::CpuBackend();
  if (name == "torch") return kernels::PortableBackend();
  return absl::InvalidArgumentError(
      absl::StrCat("--backend is ", name, "; it must be cpu or torch"));
}

// The GPU that `choice` names, or null for the CPU.
absl::StatusOr<std::shared_ptr<Device>> FindGpu(const DeviceChoice& choice,
                                                const HostKernels& host) {
  const bool portable = choice.backend != "cpu";
  if (choice.device == "cpu" || (choice.device == "auto" && portable)) return nullptr;
  if (choice.device != "cuda" && choice.device != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--device is ", choice.device, "; it must be cpu, cuda or auto"));
  }
  if (portable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--backend ", choice.backend, " does not run on --device cuda; remove one of these flags"));
  }
  absl::StatusOr<std::shared_ptr<Device>> gpu = OpenGpu(choice, host);
  if (gpu.ok() || choice.device == "cuda") return gpu;
  if (!absl::IsUnimplemented(gpu.status())) {
    LOG(INFO) << "no usable GPU (" << gpu.status().message() << "); running on the CPU";
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<LocalDevice> OpenLocalDevice(const DeviceChoice& choice) {
  constexpr int kMaxThreads = 1024;
  if (choice.threads < 0 || choice.threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat("--threads is ", choice.threads,
                                                   "; it must be in [0, ", kMaxThreads,
                                                   "] (0: one per core)"));
  }
  if (choice.gemm != "exact" && choice.gemm != "cublaslt") {
    return absl::InvalidArgumentError(
        absl::StrCat("--gemm is ", choice.gemm, "; it must be exact or cublaslt"));
  }
  RETURN_IF_ERROR(Annotate(CheckDataFile(choice.gemm_table), "--gemm_table"));
  ASSIGN_OR_RETURN(const kernels::Backend* const backend, FindBackend(choice.backend));
  const int threads = choice.threads == 0 ? static_cast<int>(UsableCores().size()) : choice.threads;
  LocalDevice local;
  local.pool = std::make_unique<kernels::ThreadPool>(threads);
  ASSIGN_OR_RETURN(local.device, FindGpu(choice, {backend, local.pool.get()}));
  if (local.device == nullptr) local.device = MakeHostDevice(*backend, *local.pool);
  return local;
}

absl::StatusOr<std::shared_ptr<Device>> OpenAnother(const LocalDevice& local,
                                                    const DeviceChoice& choice) {
  if (local.device->on_host()) return local.device;
  return OpenGpu(choice, local.device->host());
}

}  // namespace bastion::nn
