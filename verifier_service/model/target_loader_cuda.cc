#include "common/base/check.h"
#include "kernels/cuda/runtime/runtime.h"
#include "verifier_service/model/cpu_target.h"
#include "verifier_service/model/cuda_target.h"
#include "verifier_service/model/target_loader.h"

namespace bastion::verifier {

absl::StatusOr<ChosenTargetLoader> ChooseTargetLoader(nn::DeviceKind kind, int gpu) {
  if (kind == nn::DeviceKind::kCpu) return ChosenTargetLoader{LoadCpuTarget, /*on_gpu=*/false};
  const auto device = kernels::cuda::OpenDevice(gpu);
  if (device.ok()) return ChosenTargetLoader{LoadCudaTarget, /*on_gpu=*/true};
  if (kind == nn::DeviceKind::kCuda) return device.status();
  LOG(INFO) << "no usable GPU (" << device.status().message() << "); running on the CPU";
  return ChosenTargetLoader{LoadCpuTarget, /*on_gpu=*/false};
}

}  // namespace bastion::verifier
