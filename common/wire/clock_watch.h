// ClockWatch: keeps the timers of gRPC going after the wall clock was set back.
//
// gRPC 1.51 waits for times of the wall clock. After the clock was set back by half an hour, its
// deadlines and keepalives come half an hour late. This file replaces gRPC's function for such
// waits by one that remembers who waits. A thread compares the wall clock with the steady one, and
// wakes all of them after a jump; then they wait again. gRPC's pause between attempts to connect
// does not use that function; see PeerChannel. Thread-safe.
#ifndef BASTION_COMMON_WIRE_CLOCK_WATCH_H_
#define BASTION_COMMON_WIRE_CLOCK_WATCH_H_

#include <thread>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"

namespace bastion::wire {

class ClockWatch {
 public:
  ClockWatch();
  ~ClockWatch();

 private:
  void Main() ABSL_LOCKS_EXCLUDED(mutex_);

  Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_CLOCK_WATCH_H_
