// Readiness: tells health checks whether the service takes requests. Thread-safe. Header-only.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_READINESS_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_READINESS_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace bastion {

class Readiness {
 public:
  // Calls `show` now and after each call below: `serving` means that the service takes requests.
  // `show` must not call this object, because its lock is held. What `show` uses must outlive this
  // object.
  void ShowIn(std::function<void(bool serving)> show) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    show_ = std::move(show);
    Show();
  }
  // The verifier is connected, or not.
  void SetReady(bool ready) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    ready_ = ready;
    Show();
  }
  // From now on, the service takes no requests.
  void Drain() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    draining_ = true;
    Show();
  }

 private:
  void Show() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (show_ != nullptr) show_(ready_ && !draining_);
  }

  Mutex mutex_;
  std::function<void(bool)> show_ ABSL_GUARDED_BY(mutex_);
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_READINESS_H_
