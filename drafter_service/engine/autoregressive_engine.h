// The engine of an autoregressive drafter. It expands any nodes of a tree, round by round: a round
// runs one forward over the new nodes of all sequences. The keys and values of the nodes stay in
// the cache until the next cycle begins; then the tokens that were committed are computed again as
// context, together with the new root.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_AUTOREGRESSIVE_ENGINE_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_AUTOREGRESSIVE_ENGINE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "drafter_service/engine/drafter_engine.h"

namespace bastion::drafter {

// Reads no features. Returns the errors of AutoregressiveModel::Load.
[[nodiscard]] absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeAutoregressiveEngine(
    const DrafterOptions& options, FeatureSource* features);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_AUTOREGRESSIVE_ENGINE_H_
