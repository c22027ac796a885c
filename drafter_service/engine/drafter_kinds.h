// The kinds of drafters: how a checkpoint of each is recognized, checked and run. A new kind is a
// new row of the table in drafter_kinds.cc.
//
// Thread-safe: immutable.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_DRAFTER_KINDS_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_DRAFTER_KINDS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "drafter_service/draft/checked_drafter.h"
#include "drafter_service/engine/drafter_engine.h"

namespace bastion::drafter {

struct DrafterKind {
  hub::ModelKind model;  // The kind of its checkpoints.
  // Makes the engine. Returns the loader's errors.
  absl::StatusOr<std::unique_ptr<DrafterEngine>> (*make)(const DrafterOptions& options,
                                                         FeatureSource* features);
  // Checks the folders as `make` does, without reading the weights.
  absl::StatusOr<CheckedDrafter> (*check)(const std::string& drafter_folder,
                                          const std::string& target_folder,
                                          const nn::EngineOptions& options);
};

// The kind of the checkpoint in `folder`. Returns the errors of hub::ReadModelConfig.
[[nodiscard]] absl::StatusOr<const DrafterKind*> FindDrafterKind(const std::string& folder);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_DRAFTER_KINDS_H_
