// The engine of autoregressive drafters. It expands any nodes of a tree, round by round: a round
// runs a forward over the new nodes of all sequences. The keys and values of the nodes stay in the
// cache until the next cycle begins; then the tokens that were committed are computed again as
// context, together with the new root. A drafter whose nodes read states of their parents needs a
// forward for each level of the new nodes. Drafters that expand only the root run here, too:
// P-EAGLE, and Medusa, which has no cache.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_AUTOREGRESSIVE_ENGINE_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_AUTOREGRESSIVE_ENGINE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "drafter_service/draft/node_model.h"
#include "drafter_service/engine/drafter_engine.h"
#include "engine/model/engine_options.h"

namespace bastion::drafter {

using LoadNodeModel = absl::StatusOr<std::unique_ptr<NodeModel>> (*)(
    const std::string& drafter_folder, const std::string& target_folder,
    const nn::EngineOptions& options);

// `features` must outlive the engine. Returns the errors of `load`.
[[nodiscard]] absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeAutoregressiveEngine(
    const DrafterOptions& options, FeatureSource* features, LoadNodeModel load);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_AUTOREGRESSIVE_ENGINE_H_
