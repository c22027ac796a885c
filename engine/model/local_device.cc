#include "engine/model/local_device.h"

#include "absl/strings/str_cat.h"
#include "common/base/cores.h"
#include "common/base/status.h"
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

}  // namespace

absl::StatusOr<LocalDevice> OpenLocalDevice(int threads, const std::string& backend) {
  constexpr int kMaxThreads = 1024;
  if (threads < 0 || threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat("--threads is ", threads, "; it must be in [0, ",
                                                   kMaxThreads, "] (0: one per core)"));
  }
  LocalDevice local;
  ASSIGN_OR_RETURN(local.device.backend, FindBackend(backend));
  if (threads == 0) threads = static_cast<int>(UsableCores().size());
  local.pool = std::make_unique<kernels::ThreadPool>(threads);
  local.device.pool = local.pool.get();
  return local;
}

absl::StatusOr<DeviceKind> ParseDeviceKind(const std::string& name, const std::string& backend) {
  const bool portable = backend != "cpu";
  if (name == "cpu") return DeviceKind::kCpu;
  if (name == "auto") return portable ? DeviceKind::kCpu : DeviceKind::kAuto;
  if (name == "cuda" && portable) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--backend ", backend, " does not run on --device cuda; remove one of these flags"));
  }
  if (name == "cuda") return DeviceKind::kCuda;
  return absl::InvalidArgumentError(
      absl::StrCat("--device is ", name, "; it must be cpu, cuda or auto"));
}

absl::StatusOr<DType> ParseDType(const std::string& name) {
  if (name == "fp32") return DType::kF32;
  if (name == "bf16") return DType::kBF16;
  if (name == "int8") return DType::kInt8;
  return absl::InvalidArgumentError(
      absl::StrCat("--dtype is ", name, "; it must be fp32, bf16 or int8"));
}

absl::StatusOr<DType> ParseDraftDType(const std::string& name, bool on_gpu) {
  if (name == "auto") {
    return !on_gpu && kernels::HasInt8Instructions() ? DType::kInt8 : DType::kBF16;
  }
  if (const auto dtype = ParseDType(name); dtype.ok()) return dtype;
  return absl::InvalidArgumentError(
      absl::StrCat("the drafter's dtype is ", name, "; it must be fp32, bf16, int8 or auto"));
}

}  // namespace bastion::nn
