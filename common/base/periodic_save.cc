#include "common/base/periodic_save.h"

#include "common/base/check.h"

namespace bastion {

bool PeriodicSave::Due(absl::Duration now) {
  if (last_ == absl::ZeroDuration()) last_ = now;
  if (now - last_ < kInterval) return false;
  last_ = now;
  return true;
}

void PeriodicSave::Start(std::function<absl::Status()> save) {
  Wait();
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
