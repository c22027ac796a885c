// The target model on a GPU. One step is three recorded CUDA graphs: the forward; the LM head; and
// choice, walk, KV compaction and gathering of features. The host waits only for the accepted
// tokens and the features. Logits leave the device only for log-probabilities and audits.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_CUDA_TARGET_H_
#define BASTION_VERIFIER_SERVICE_MODEL_CUDA_TARGET_H_

#include <memory>
#include <string>

#include "verifier_service/model/target.h"

namespace bastion::verifier {

// UNAVAILABLE if there is no GPU, RESOURCE_EXHAUSTED if its memory is too small, INVALID_ARGUMENT
// for a drafter's folder or int8, and the errors of the checkpoint's files.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Target>> LoadCudaTarget(
    const std::string& folder, const nn::EngineOptions& options);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_CUDA_TARGET_H_
