// WorkLimit: limits how many calls do something at a time, and with how many bytes. The next permit
// goes to the origin (e.g. a host) that has waited longest since its last one, there to the client,
// and there to the call that came first. A call that waits gives up when its deadline passes or its
// client is gone. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_INTAKE_WORK_LIMIT_H_
#define BASTION_ORCHESTRATOR_INTAKE_WORK_LIMIT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"

namespace bastion {

// Whose call it is. Calls that do not say share a name, and so get permits in order.
struct WorkCaller {
  std::string origin = {};
  std::string client = {};
};

class WorkLimit {
 public:
  // The right to work, until it is destroyed. The limit must outlive it.
  class Permit {
   public:
    Permit(WorkLimit* limit, size_t bytes, WorkCaller caller)
        : limit_(limit, Leave{bytes, std::move(caller)}) {}
    Permit(Permit&&) = default;
    Permit& operator=(Permit&&) = default;

   private:
    struct Leave {
      void operator()(WorkLimit* limit) const { limit->Leave(bytes, caller); }
      size_t bytes;
      WorkCaller caller;
    };
    std::unique_ptr<WorkLimit, Leave> limit_;
  };

  // At most `permits` calls work at a time, with at most `bytes` together. One call may always
  // work.
  WorkLimit(int permits, size_t bytes);

  // Waits for a permit with `bytes` until `deadline` (on Clock::Real()), or until `is_canceled`,
  // which may be null, returns true. It is asked now and then. CANCELLED or DEADLINE_EXCEEDED, for
  // clients.
  [[nodiscard]] absl::StatusOr<Permit> Wait(size_t bytes, absl::Duration deadline,
                                            const std::function<bool()>& is_canceled,
                                            const WorkCaller& caller = {})
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // A call that waits.
  struct Place {
    size_t bytes;
    WorkCaller caller;
  };
  // The permits of an origin or a client, while it has calls.
  struct Usage {
    int calls = 0;      // That wait or work.
    int64_t last = -1;  // The number of the last permit.
  };
  using Usages = std::map<std::string, Usage>;

  void Leave(size_t bytes, const WorkCaller& caller) ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds to the calls of a caller. It is forgotten when it has none.
  void Count(const WorkCaller& caller, int calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Chooses next_.
  void ChooseNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int max_permits_;
  const size_t max_bytes_;
  Mutex mutex_;
  int permits_ ABSL_GUARDED_BY(mutex_) = 0;              // Calls that work.
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;             // Their bytes.
  int64_t permit_number_ ABSL_GUARDED_BY(mutex_) = 0;    // The number of the next permit.
  std::list<Place> waiting_ ABSL_GUARDED_BY(mutex_);     // In the order of their calls.
  const Place* next_ ABSL_GUARDED_BY(mutex_) = nullptr;  // The one of them that is next.
  Usages origins_ ABSL_GUARDED_BY(mutex_);
  Usages clients_ ABSL_GUARDED_BY(mutex_);  // By origin and client.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_WORK_LIMIT_H_
