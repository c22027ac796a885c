// WallTime: the calendar time of a moment on the steady clock, so that spans of one process never
// overlap wrongly when the calendar clock is adjusted. Thread-safe.
#ifndef BASTION_COMMON_TELEMETRY_WALL_TIME_H_
#define BASTION_COMMON_TELEMETRY_WALL_TIME_H_

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/clock.h"

namespace bastion {

// The calendar time of `moment` on Clock::Real().
[[nodiscard]] inline absl::Time WallTime(absl::Duration moment) {
  static const absl::Time zero = absl::Now() - Clock::Real().Now();
  return zero + moment;
}

}  // namespace bastion

#endif  // BASTION_COMMON_TELEMETRY_WALL_TIME_H_
