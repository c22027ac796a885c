// Chooses the target for `--device`. A build with CUDA compiles target_loader_cuda.cc; every other
// build compiles target_loader_cpu.cc.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_TARGET_LOADER_H_
#define BASTION_VERIFIER_SERVICE_MODEL_TARGET_LOADER_H_

#include "absl/status/statusor.h"
#include "engine/model/local_device.h"
#include "verifier_service/model/target.h"

namespace bastion::verifier {

struct ChosenTargetLoader {
  TargetLoader load = nullptr;
  bool on_gpu = false;
};

// UNIMPLEMENTED for kCuda in a build without CUDA; UNAVAILABLE for kCuda if there is no GPU `gpu`.
[[nodiscard]] absl::StatusOr<ChosenTargetLoader> ChooseTargetLoader(nn::DeviceKind kind, int gpu);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_TARGET_LOADER_H_
