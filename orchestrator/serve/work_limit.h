// WorkLimit: limits how many calls do something at a time. A call that waits for its turn gives up
// when its deadline passes or its client is gone. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_WORK_LIMIT_H_
#define BASTION_ORCHESTRATOR_SERVE_WORK_LIMIT_H_

#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace bastion {

class WorkLimit {
 public:
  // The right to work, until it is destroyed. The limit must outlive it.
  class Turn {
   public:
    explicit Turn(WorkLimit* limit) : limit_(limit) {}
    Turn(Turn&&) = default;
    Turn& operator=(Turn&&) = default;

   private:
    struct Leave {
      void operator()(WorkLimit* limit) const { limit->Leave(); }
    };
    std::unique_ptr<WorkLimit, Leave> limit_;
  };

  // At most `turns` calls work at a time; at least one.
  explicit WorkLimit(int turns);

  // Waits for a turn until `deadline` (on Clock::Real()), or until `is_canceled`, which may be
  // null, returns true. It is asked now and then. CANCELLED or DEADLINE_EXCEEDED, for clients.
  [[nodiscard]] absl::StatusOr<Turn> Wait(absl::Duration deadline,
                                          const std::function<bool()>& is_canceled)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  int free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_WORK_LIMIT_H_
