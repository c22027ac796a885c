// Which target `--device` names. One of two files is compiled: target_loader_cuda.cc in a build
// with CUDA, target_loader_cpu.cc in every other.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_TARGET_LOADER_H_
#define BASTION_VERIFIER_SERVICE_MODEL_TARGET_LOADER_H_

#include "absl/status/statusor.h"
#include "common/nn/local_device.h"
#include "verifier_service/model/target.h"

namespace bastion::verifier {

struct ChosenTargetLoader {
  TargetLoader load = nullptr;
  bool on_gpu = false;
};

// UNIMPLEMENTED for kCuda in a build without it; UNAVAILABLE for kCuda where there is no GPU `gpu`.
[[nodiscard]] absl::StatusOr<ChosenTargetLoader> ChooseTargetLoader(nn::DeviceKind kind, int gpu);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_TARGET_LOADER_H_
