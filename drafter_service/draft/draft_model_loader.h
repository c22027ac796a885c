// Chooses the device and the draft model for `--device`. A build with CUDA compiles
// draft_model_loader_cuda.cc; every other build compiles draft_model_loader_cpu.cc.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_LOADER_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_LOADER_H_

#include <string>

#include "absl/status/statusor.h"
#include "drafter_service/draft/draft_model.h"
#include "engine/model/local_device.h"

namespace bastion::drafter {

// Where the drafter in `folder` runs. Autoregressive drafters run on CPUs only: for them, kAuto
// becomes kCpu, and kCuda is UNIMPLEMENTED. Errors: IsBlockDrafter.
[[nodiscard]] absl::StatusOr<nn::DeviceKind> ChooseDraftDevice(nn::DeviceKind kind,
                                                               const std::string& folder);

struct ChosenDraftModelLoader {
  DraftModelLoader load = nullptr;
  bool on_gpu = false;
};

// `kind` is what ChooseDraftDevice returned. UNIMPLEMENTED for kCuda in a build without CUDA;
// UNAVAILABLE for kCuda if there is no GPU `gpu`.
[[nodiscard]] absl::StatusOr<ChosenDraftModelLoader> ChooseDraftModelLoader(nn::DeviceKind kind,
                                                                            int gpu);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_DRAFT_MODEL_LOADER_H_
