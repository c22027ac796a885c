// The engine of block drafters: keeps each sequence's context cache up to date with the
// target's features, and drafts all positions after the root in one forward.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_BLOCK_ENGINE_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_BLOCK_ENGINE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "drafter_service/draft/draft_model.h"
#include "drafter_service/engine/drafter_engine.h"
#include "engine/model/engine_options.h"

namespace bastion::drafter {

// Loads the model of a drafter, which borrows weights from its target.
using LoadDraftModel = absl::StatusOr<std::unique_ptr<DraftModel>> (*)(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options);

// `features` must outlive the engine. Returns the errors of `load`.
[[nodiscard]] absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeBlockEngine(
    const DrafterOptions& options, FeatureSource* features, LoadDraftModel load);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_BLOCK_ENGINE_H_
