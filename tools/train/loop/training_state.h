// TrainingState: the file from which a stopped run continues with the same bits: parameters,
// moments and counters, in fp32. Written as a whole and renamed, so a killed run leaves the last
// complete one.
#ifndef BASTION_TOOLS_TRAIN_LOOP_TRAINING_STATE_H_
#define BASTION_TOOLS_TRAIN_LOOP_TRAINING_STATE_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/loop/optimizer.h"
#include "tools/train/models/parameters.h"

namespace bastion::train {

struct TrainingCounters {
  int64_t steps = 0;
  int64_t nanoseconds = 0;  // Training time, of all runs together.
  int64_t labels = 0;
  int64_t best_millionths = 0;  // The best τ that the judge saw, times a million.
};

// Errors: those of hub::WriteSafetensors.
[[nodiscard]] absl::Status SaveTrainingState(const Parameters& parameters,
                                             const Optimizer& optimizer,
                                             const TrainingCounters& counters,
                                             const std::string& path);

// Restores parameters and optimizer in place. NOT_FOUND without a file. INVALID_ARGUMENT for the
// state of a drafter of another shape or with other constants; the message names the tensor.
[[nodiscard]] absl::StatusOr<TrainingCounters> LoadTrainingState(const Parameters& parameters,
                                                                 Optimizer& optimizer,
                                                                 const std::string& path);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_TRAINING_STATE_H_
