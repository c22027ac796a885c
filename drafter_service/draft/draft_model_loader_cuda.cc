#include "common/base/check.h"
#include "drafter_service/draft/cuda_dflash.h"
#include "drafter_service/draft/dflash.h"
#include "drafter_service/draft/draft_model_loader.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::drafter {

absl::StatusOr<ChosenDraftModelLoader> ChooseDraftModelLoader(nn::DeviceKind kind, int gpu) {
  if (kind == nn::DeviceKind::kCpu) return ChosenDraftModelLoader{LoadCpuDflash, /*on_gpu=*/false};
  const auto device = kernels::cuda::OpenDevice(gpu);
  if (device.ok()) return ChosenDraftModelLoader{LoadCudaDflash, /*on_gpu=*/true};
  if (kind == nn::DeviceKind::kCuda) return device.status();
  LOG(INFO) << "no usable GPU (" << device.status().message() << "); running on the CPU";
  return ChosenDraftModelLoader{LoadCpuDflash, /*on_gpu=*/false};
}

}  // namespace bastion::drafter
