// DFlash on a GPU: the same model as dflash.h, the projection of new context and the draft of a
// block each one recorded graph.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_CUDA_DFLASH_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_CUDA_DFLASH_H_

#include <memory>
#include <string>

#include "drafter_service/draft/draft_model.h"

namespace bastion::drafter {

// UNAVAILABLE where there is no GPU, RESOURCE_EXHAUSTED where its memory does not suffice,
// INVALID_ARGUMENT for int8; else ReadDraftPair's errors and those of the checkpoints' files.
[[nodiscard]] absl::StatusOr<std::unique_ptr<DraftModel>> LoadCudaDflash(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_CUDA_DFLASH_H_
