// A clock that moves only when Advance() is called. Header-only. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_MANUAL_CLOCK_H_
#define BASTION_TESTS_SUPPORT_MANUAL_CLOCK_H_

#include "absl/time/time.h"
#include "common/base/clock.h"

namespace bastion::testing {

class ManualClock final : public Clock {
 public:
  absl::Duration Now() const override { return now_; }
  void Advance(absl::Duration step) { now_ += step; }

 private:
  absl::Duration now_ = absl::ZeroDuration();
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_MANUAL_CLOCK_H_
