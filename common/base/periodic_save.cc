#include "common/base/periodic_save.h"

#include <chrono>

#include "common/base/check.h"

namespace bastion {

bool PeriodicSave::Due(absl::Duration now) {
  if (last_ == absl::ZeroDuration()) last_ = now;
  if (now - last_ < kInterval) return false;
  last_ = now;
  return true;
}

void PeriodicSave::Start(std::function<absl::Status()> save) {
  if (saving_.valid() && saving_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    LOG(WARNING) << "the disk is too slow: the last save of " << what_ << " still runs";
    return;
  }
  saving_ = std::async(std::launch::async, [save = std::move(save), what = what_] {
    if (const absl::Status saved = save(); !saved.ok()) {
      LOG(WARNING) << "could not save " << what << ": " << saved;
    }
  });
}

void PeriodicSave::Wait() {
  if (saving_.valid()) saving_.wait();
}

}  // namespace bastion
