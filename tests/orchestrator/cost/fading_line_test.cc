#include "orchestrator/cost/fading_line.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(FadingLineTest, FollowsALine) {
  FadingLine line;
  for (int i = 0; i < 500; ++i) line.Observe(i % 8, 3 + 2 * (i % 8));
  EXPECT_NEAR(line.At(0), 3, 0.1);
  EXPECT_NEAR(line.At(7), 17, 0.1);
}

TEST(FadingLineTest, PointsAtOnePlaceGiveAConstant) {
  FadingLine line;
  for (int i = 0; i < 100; ++i) line.Observe(1, 5);
  EXPECT_NEAR(line.At(1), 5, 1e-9);
  EXPECT_NEAR(line.At(30), 5, 1e-9);
}

TEST(FadingLineTest, ForgetsOldPoints) {
  FadingLine line;
  for (int i = 0; i < 1000; ++i) line.Observe(1, 5);
  for (int i = 0; i < 1000; ++i) line.Observe(1, 9);
  EXPECT_NEAR(line.At(1), 9, 0.1);
}

}  // namespace
}  // namespace bastion
