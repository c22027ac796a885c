// The target model on the CPU.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_CPU_TARGET_H_
#define BASTION_VERIFIER_SERVICE_MODEL_CPU_TARGET_H_

#include <memory>
#include <string>

#include "verifier_service/model/target.h"

namespace bastion::verifier {

// Errors: see TargetModel::Load in verifier_service/model/forward.h.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Target>> LoadCpuTarget(
    const std::string& folder, const nn::EngineOptions& options);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_CPU_TARGET_H_
