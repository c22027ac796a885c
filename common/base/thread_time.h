// The CPU time of a thread, for limits that must not depend on how busy the machine is.
// Thread-safe. Header-only.
#ifndef BASTION_COMMON_BASE_THREAD_TIME_H_
#define BASTION_COMMON_BASE_THREAD_TIME_H_

#include <sys/resource.h>
#include <time.h>

#include "absl/time/time.h"

namespace bastion {

// The CPU time that this thread has used.
[[nodiscard]] inline absl::Duration ThreadCpuTime() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return absl::DurationFromTimespec(time);
}

// Lets other threads of the machine go first from now on. Linux has a niceness for each thread.
inline void LowerThreadPriority() {
  constexpr int kNiceness = 10;
  (void)setpriority(PRIO_PROCESS, 0, kNiceness);
}

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_THREAD_TIME_H_
