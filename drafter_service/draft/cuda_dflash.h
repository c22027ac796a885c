// DFlash on a GPU: the model of dflash.h. The projection of new context and the draft of a block
// are one recorded CUDA graph each.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_CUDA_DFLASH_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_CUDA_DFLASH_H_

#include <memory>
#include <string>

#include "drafter_service/draft/draft_model.h"

namespace bastion::drafter {

// UNAVAILABLE if there is no GPU, RESOURCE_EXHAUSTED if its memory is too small, INVALID_ARGUMENT
// for int8, and the errors of ReadDraftPair and of the checkpoints' files.
[[nodiscard]] absl::StatusOr<std::unique_ptr<DraftModel>> LoadCudaDflash(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_CUDA_DFLASH_H_
