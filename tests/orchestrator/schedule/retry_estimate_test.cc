#include "orchestrator/schedule/retry_estimate.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr absl::Duration kSecond = absl::Seconds(1);

// Serves `count` requests, one after another, each for `each`. Returns the time of the last end.
absl::Duration Serve(RetryEstimate& retry, int count, absl::Duration each) {
  absl::Duration now;
  retry.RecordStart(now);
  for (int i = 0; i < count; ++i) {
    retry.RecordStart(now);
    now += each;
    retry.RecordEnd(now);
  }
  return now;
}

TEST(RetryEstimateTest, TheDelayIsTheIntervalBetweenTwoEnds) {
  RetryEstimate retry;
  const absl::Duration now = Serve(retry, 50, 3 * kSecond);
  EXPECT_NEAR(absl::ToDoubleSeconds(retry.NextDelay(now)), 3, 0.01);
}

TEST(RetryEstimateTest, ClientsThatAreRefusedTogetherReturnOneByOne) {
  RetryEstimate retry;
  const absl::Duration now = Serve(retry, 50, 2 * kSecond);
  EXPECT_NEAR(absl::ToDoubleSeconds(retry.NextDelay(now)), 2, 0.01);
  EXPECT_NEAR(absl::ToDoubleSeconds(retry.NextDelay(now)), 4, 0.01);
  retry.RecordEnd(now + 2 * kSecond);
  EXPECT_NEAR(absl::ToDoubleSeconds(retry.NextDelay(now + 2 * kSecond)), 2, 0.01);
}

TEST(RetryEstimateTest, ALongTimeWithoutAnEndRaisesTheDelay) {
  RetryEstimate retry;
  const absl::Duration now = Serve(retry, 50, kSecond);
  EXPECT_EQ(retry.NextDelay(now + 20 * kSecond), 20 * kSecond);
}

TEST(RetryEstimateTest, IdleTimeDoesNotCount) {
  RetryEstimate retry;
  absl::Duration now = Serve(retry, 50, kSecond);
  retry.RecordEnd(now);  // The request that was served all the time.
  now += absl::Hours(5);
  retry.RecordStart(now);
  EXPECT_LE(retry.NextDelay(now), kSecond);
}

TEST(RetryEstimateTest, TheDelayIsLimited) {
  RetryEstimate retry;
  absl::Duration now = Serve(retry, 50, absl::Microseconds(1));
  EXPECT_EQ(retry.NextDelay(now), RetryEstimate::kShortest);
  now += absl::Hours(1);
  EXPECT_EQ(retry.NextDelay(now), RetryEstimate::kLongest);
}

TEST(RetryEstimateTest, APreemptionFreesNoPlace) {
  RetryEstimate retry;
  const absl::Duration now = Serve(retry, 50, kSecond);
  retry.RecordStart(now);
  retry.RecordPreemption();
  EXPECT_EQ(retry.NextDelay(now + 10 * kSecond), 10 * kSecond);
}

}  // namespace
}  // namespace bastion
