// EngineMeter: what the engine of a service does, for clients that ask (EngineActivity).
// Thread-safe.
#ifndef BASTION_COMMON_STAGES_ENGINE_METER_H_
#define BASTION_COMMON_STAGES_ENGINE_METER_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/base/engine_progress.h"
#include "common/base/mutex.h"
#include "common/base/siphash.h"
#include "common/stages/stage_data.h"
#include "common/stages/stall_watch.h"

namespace bastion {

class EngineMeter {
 public:
  // An engine that makes no progress for this long will never go on.
  static constexpr absl::Duration kHangLimit = absl::Minutes(1);

  explicit EngineMeter(const Clock* clock = &Clock::Real()) : clock_(clock) {}

  // A call of the engine, from its arrival to its reply.
  class Call {
   public:
    explicit Call(EngineMeter* meter) : meter_(meter) {
      CountProgress();
      ++meter_->calls_;
    }
    ~Call() {
      CountProgress();
      --meter_->calls_;
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    EngineMeter* const meter_;
  };

  [[nodiscard]] EngineActivity activity() const { return {instance_, ProgressCount(), calls_ > 0}; }

  // True if a call has made no progress for kHangLimit, judged by the calls of this function.
  [[nodiscard]] bool hangs() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return stall_.Look(activity(), clock_->Now()) > kHangLimit;
  }

 private:
  const uint64_t instance_ = RandomKey().low;
  const Clock* const clock_;
  std::atomic<int> calls_{0};
  Mutex mutex_;
  StallWatch stall_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_ENGINE_METER_H_
