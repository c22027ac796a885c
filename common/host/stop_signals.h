// StopSignals: how SIGTERM and SIGINT end a service, and what does not end it or hold it up:
// SIGPIPE, and a log that is not read (log_writer.h).
//
// A thread of its own waits for the signals:
//   before Arm()      a signal ends the process at once: nothing is lost while a model loads
//   after Arm()       a signal ends Wait(): the service stops in an orderly way
//   after that        a second signal ends the process at once, and so does the time limit
#ifndef BASTION_COMMON_HOST_STOP_SIGNALS_H_
#define BASTION_COMMON_HOST_STOP_SIGNALS_H_

#include <atomic>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "common/base/log_writer.h"
#include "common/base/mutex.h"

namespace bastion::wire {

class StopSignals {
 public:
  // Blocks SIGTERM and SIGINT in this thread and in the threads that it starts later, and ignores
  // SIGPIPE. Create it at the start of main.
  StopSignals();
  ~StopSignals();

  // Call it before the service begins. The process ends if it still runs `limit` after a signal.
  void Arm(absl::Duration limit) ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for a signal and returns its name. REQUIRES: Arm() was called.
  [[nodiscard]] std::string Wait() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Main() ABSL_LOCKS_EXCLUDED(mutex_);
  // Handles a signal, or 0 for none.
  void Handle(int signal) ABSL_LOCKS_EXCLUDED(mutex_);

  const base::LogWriter log_;
  std::atomic<bool> finished_{false};
  Mutex mutex_;
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;
  int signal_ ABSL_GUARDED_BY(mutex_) = 0;  // The one that ended Wait().
  absl::Duration limit_ ABSL_GUARDED_BY(mutex_);
  absl::Duration deadline_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  std::thread thread_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_STOP_SIGNALS_H_
