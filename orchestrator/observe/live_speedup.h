// LiveSpeedup: how many times faster than plain decoding the recent cycles were. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_OBSERVE_LIVE_SPEEDUP_H_
#define BASTION_ORCHESTRATOR_OBSERVE_LIVE_SPEEDUP_H_

#include <cmath>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace bastion {

class LiveSpeedup {
 public:
  // Half of the weight is on the last 20 seconds of decoding.
  static constexpr double kHalfLife = 20;

  // A cycle took `spent` for decoding. Plain decoding would have needed `plain` for its tokens.
  void Observe(absl::Duration spent, absl::Duration plain) ABSL_LOCKS_EXCLUDED(mutex_) {
    const double seconds = absl::ToDoubleSeconds(spent);
    const double kept = std::exp2(-seconds / kHalfLife);
    MutexLock lock(&mutex_);
    spent_ = kept * spent_ + seconds;
    plain_ = kept * plain_ + absl::ToDoubleSeconds(plain);
  }
  // 1 before the first cycle.
  [[nodiscard]] double ratio() const ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return spent_ > 0 ? plain_ / spent_ : 1;
  }

 private:
  mutable Mutex mutex_;
  double spent_ ABSL_GUARDED_BY(mutex_) = 0;  // Seconds, fading.
  double plain_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OBSERVE_LIVE_SPEEDUP_H_
