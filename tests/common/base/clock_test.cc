#include "common/base/clock.h"

#include "gtest/gtest.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

TEST(ClockTest, RealTimeNeverDecreases) {
  absl::Duration last = Clock::Real().Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Duration now = Clock::Real().Now();
    EXPECT_GE(now, last);
    last = now;
  }
}

TEST(StopWatchTest, LapReturnsTheTimeSinceTheLastLap) {
  testing::ManualClock clock;
  clock.Advance(absl::Seconds(5));
  StopWatch watch(clock);
  clock.Advance(absl::Milliseconds(3));
  EXPECT_EQ(watch.Lap(), absl::Milliseconds(3));
  EXPECT_EQ(watch.Lap(), absl::ZeroDuration());
  clock.Advance(absl::Milliseconds(4));
  EXPECT_EQ(watch.Lap(), absl::Milliseconds(4));
}

}  // namespace
}  // namespace bastion
