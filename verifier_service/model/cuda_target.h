// The target on a GPU. One step is three recorded graphs: the forward; the LM head; and the choice,
// the walk, the KV compaction and the gathering of features. The host waits for the accepted tokens
// and for the features, nothing else; logits never leave the device but for logprobs and audits.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_CUDA_TARGET_H_
#define BASTION_VERIFIER_SERVICE_MODEL_CUDA_TARGET_H_

#include <memory>
#include <string>

#include "verifier_service/model/target.h"

namespace bastion::verifier {

// UNAVAILABLE where there is no GPU, RESOURCE_EXHAUSTED where its memory does not suffice,
// INVALID_ARGUMENT for a drafter's folder or int8, and the errors of the checkpoint's files.
[[nodiscard]] absl::StatusOr<std::unique_ptr<Target>> LoadCudaTarget(
    const std::string& folder, const nn::EngineOptions& options);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_CUDA_TARGET_H_
