// The kinds of drafters that can be trained. A new kind is a new row of the table in
// trainable_kinds.cc.
//
// Thread-safe: immutable.
#ifndef BASTION_TOOLS_TRAIN_MODELS_TRAINABLE_KINDS_H_
#define BASTION_TOOLS_TRAIN_MODELS_TRAINABLE_KINDS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

// A new drafter of the kind `name`, e.g. "dflash". INVALID_ARGUMENT for an unknown kind or a shape
// that does not fit the target. `target` must outlive the drafter.
[[nodiscard]] absl::StatusOr<std::unique_ptr<TrainableDrafter>> MakeTrainableDrafter(
    const std::string& name, const FrozenTarget& target, const DrafterShape& shape, uint64_t seed);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_TRAINABLE_KINDS_H_
