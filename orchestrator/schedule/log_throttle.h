// LogThrottle: limits how often a recurring event is logged. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_LOG_THROTTLE_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_LOG_THROTTLE_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/time/time.h"

namespace bastion {

// How often a recurring event of the service is logged.
inline constexpr absl::Duration kLogInterval = absl::Seconds(10);

class LogThrottle {
 public:
  explicit LogThrottle(absl::Duration interval) : interval_(interval) {}

  // Counts an event. Returns the number of events since the last line if a line is due, at most
  // one per interval; else nullopt. `now` must not fall.
  [[nodiscard]] std::optional<int64_t> Count(absl::Duration now) {
    ++events_;
    if (now < next_) return std::nullopt;
    next_ = now + interval_;
    return std::exchange(events_, 0);
  }

 private:
  const absl::Duration interval_;
  absl::Duration next_ = -absl::InfiniteDuration();
  int64_t events_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_LOG_THROTTLE_H_
