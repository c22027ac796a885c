#include "orchestrator/schedule/log_throttle.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(LogThrottleTest, TheFirstEventIsLoggedAndLaterOnesAreCounted) {
  LogThrottle throttle(absl::Seconds(10));
  EXPECT_EQ(throttle.Count(absl::Seconds(100)), 1);
  EXPECT_EQ(throttle.Count(absl::Seconds(101)), std::nullopt);
  EXPECT_EQ(throttle.Count(absl::Seconds(109)), std::nullopt);
  EXPECT_EQ(throttle.Count(absl::Seconds(110)), 3);
  EXPECT_EQ(throttle.Count(absl::Seconds(111)), std::nullopt);
}

}  // namespace
}  // namespace bastion
