// The engine of a block drafter (DFlash): keeps each sequence's context cache up to date with the
// target's features, and drafts all positions after the root in one forward.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_BLOCK_ENGINE_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_BLOCK_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "drafter_service/engine/drafter_engine.h"

namespace bastion::drafter {

// `features` must outlive the engine. Returns the loader's errors.
[[nodiscard]] absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeBlockEngine(
    const DrafterOptions& options, FeatureSource* features);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_BLOCK_ENGINE_H_
