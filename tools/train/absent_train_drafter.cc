#include "tools/train/train_drafter.h"

namespace bastion::train {

absl::Status TrainDrafter(const TrainOptions& /*options*/) {
  return absl::UnimplementedError(
      "this build cannot train drafters because it has no libtorch; build it with "
      "deploy/local/build.sh torch bastion-train");
}

}  // namespace bastion::train
