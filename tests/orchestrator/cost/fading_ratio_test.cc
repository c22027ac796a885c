#include "orchestrator/cost/fading_ratio.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(FadingRatioTest, FollowsRecentEvents) {
  FadingRatio ratio;
  for (int i = 0; i < 200; ++i) ratio.Add(1, 2, /*memory=*/16);
  EXPECT_NEAR(ratio.value(), 0.5, 1e-9);
  for (int i = 0; i < 200; ++i) ratio.Add(3, 2, /*memory=*/16);
  EXPECT_NEAR(ratio.value(), 1.5, 1e-4);
}

TEST(FadingRatioTest, AboutAsManyEventsCountAsItsMemory) {
  FadingRatio ratio;
  for (int i = 0; i < 1000; ++i) ratio.Add(1, 1, /*memory=*/32);
  EXPECT_NEAR(ratio.bottom, 32, 1e-6);
}

TEST(FadingRatioTest, IsDrawnTowardOneUntilEventsOutweighIt) {
  FadingRatio ratio;
  EXPECT_EQ(ratio.Shrunk(8), 1);
  ratio.Add(0, 1, /*memory=*/64);
  EXPECT_EQ(ratio.Shrunk(8), 8.0 / 9);
}

}  // namespace
}  // namespace bastion
