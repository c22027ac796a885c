// The flags of bastion-train, as plain data. Only flags.cc and main.cc read flags.
#ifndef BASTION_TOOLS_TRAIN_FLAGS_H_
#define BASTION_TOOLS_TRAIN_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/command_line.h"
#include "tools/train/prior/prior.h"
#include "tools/train/teach/teach.h"
#include "tools/train/teach/user_turns.h"
#include "tools/train/train_drafter.h"

namespace bastion::train {

// The flags of one command. INVALID_ARGUMENT, naming the flag, for a missing or wrong value.
[[nodiscard]] absl::StatusOr<drafter::PriorOptions> ReadPriorFlags(std::vector<std::string> files);
[[nodiscard]] absl::StatusOr<TurnsOptions> ReadTurnsFlags();
[[nodiscard]] absl::StatusOr<TeachOptions> ReadTeachFlags();
[[nodiscard]] absl::StatusOr<TrainOptions> ReadTrainFlags(const std::string& kind);

// The flags in --help.
[[nodiscard]] std::vector<FlagGroup> TrainFlagGroups();

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_FLAGS_H_
