// StallWatch: how long an engine has been in a call without progress, judged by looks at its
// activity now and then. Thread-compatible.
#ifndef BASTION_COMMON_STAGES_STALL_WATCH_H_
#define BASTION_COMMON_STAGES_STALL_WATCH_H_

#include <optional>

#include "absl/time/time.h"
#include "common/stages/stage_data.h"

namespace bastion {

class StallWatch {
 public:
  // Takes a look at `now`, on any steady clock. Returns the time since the last look that saw the
  // engine idle or a change of its progress; 0 if this look does, and at the first look.
  absl::Duration Look(const EngineActivity& activity, absl::Duration now) {
    if (!progress_.has_value() || !activity.busy || activity.progress != progress_) since_ = now;
    progress_ = activity.progress;
    return now - since_;
  }

 private:
  std::optional<uint64_t> progress_;  // At the last look.
  absl::Duration since_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_STALL_WATCH_H_
