// WorkLimit: limits how many calls do something at a time, and with how many bytes. Calls get their
// turns in the order in which they came. A call that waits gives up when its deadline passes or its
// client is gone. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_WORK_LIMIT_H_
#define BASTION_ORCHESTRATOR_SERVE_WORK_LIMIT_H_

#include <cstddef>
#include <functional>
#include <list>
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
    Turn(WorkLimit* limit, size_t bytes) : limit_(limit, Leave{bytes}) {}
    Turn(Turn&&) = default;
    Turn& operator=(Turn&&) = default;

   private:
    struct Leave {
      void operator()(WorkLimit* limit) const { limit->Leave(bytes); }
      size_t bytes;
    };
    std::unique_ptr<WorkLimit, Leave> limit_;
  };

  // At most `turns` calls work at a time, with at most `bytes` together. One call may always work.
  WorkLimit(int turns, size_t bytes);

  // Waits for a turn with `bytes` until `deadline` (on Clock::Real()), or until `is_canceled`,
  // which may be null, returns true. It is asked now and then. CANCELLED or DEADLINE_EXCEEDED, for
  // clients.
  [[nodiscard]] absl::StatusOr<Turn> Wait(size_t bytes, absl::Duration deadline,
                                          const std::function<bool()>& is_canceled)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Leave(size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);

  const int max_turns_;
  const size_t max_bytes_;
  Mutex mutex_;
  int turns_ ABSL_GUARDED_BY(mutex_) = 0;              // Calls that work.
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;           // Their bytes.
  std::list<size_t> waiting_ ABSL_GUARDED_BY(mutex_);  // Bytes of the calls that wait, in order.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_WORK_LIMIT_H_
