// Clock: the source of time. Tests replace it to control time. Implementations are thread-safe.
#ifndef BASTION_COMMON_BASE_CLOCK_H_
#define BASTION_COMMON_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace bastion {

class Clock {
 public:
  virtual ~Clock() = default;
  // Monotonic time since an arbitrary start. Only differences are meaningful.
  [[nodiscard]] virtual absl::Duration Now() const = 0;

  // The process-wide steady clock.
  static const Clock& Real();
};

// The steady clock as an absl::Time, for deadlines: the wall clock's time at the first call, plus
// the time since then. Unlike absl::Now(), it does not jump when the machine's clock is set.
[[nodiscard]] absl::Time SteadyNow();

// Measures consecutive stages. Thread-compatible.
class StopWatch {
 public:
  explicit StopWatch(const Clock& clock = Clock::Real()) : clock_(clock), last_(clock.Now()) {}
  // Time since the last call of Lap, or since construction.
  absl::Duration Lap() {
    const absl::Duration now = clock_.Now();
    const absl::Duration lap = now - last_;
    last_ = now;
    return lap;
  }

 private:
  const Clock& clock_;
  absl::Duration last_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_CLOCK_H_
