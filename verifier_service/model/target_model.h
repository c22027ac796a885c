// The target model on any device. One step is a forward, the LM head, the decision (choices and
// walk) and the commit (KV compaction and gathering of features). The host waits only for the
// accepted tokens and the features.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_TARGET_MODEL_H_
#define BASTION_VERIFIER_SERVICE_MODEL_TARGET_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/engine_options.h"
#include "verifier_service/model/target.h"

namespace bastion::verifier {

// Loads the model in `folder` on options.device. RESOURCE_EXHAUSTED if the device has too little
// memory; the errors of nn::LoadCausalModel.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Target>> LoadTarget(const std::string& folder,
                                                                 const nn::EngineOptions& options);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_TARGET_MODEL_H_
