#include "orchestrator/remote/call_patience.h"

#include <algorithm>

#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr absl::Duration kLongest = absl::Milliseconds(500);
constexpr absl::Duration kTime = absl::Milliseconds(30);

CallPatience AfterCalls(size_t count, int64_t work, absl::Duration time) {
  CallPatience patience(kLongest);
  for (size_t i = 0; i < count; ++i) patience.Record(work, time);
  return patience;
}

TEST(CallPatienceTest, TheFirstCallsMayTakeTheLongestTime) {
  EXPECT_EQ(AfterCalls(CallPatience::kFewest - 1, 10, kTime).For(10), kLongest);
  EXPECT_EQ(AfterCalls(CallPatience::kFewest, 10, kTime).For(10), CallPatience::kSlack * kTime);
}

TEST(CallPatienceTest, MoreWorkMayTakeLongerAndLessWorkAsLong) {
  const CallPatience patience = AfterCalls(20, 10, kTime);
  EXPECT_EQ(patience.For(20), 2 * CallPatience::kSlack * kTime);
  EXPECT_EQ(patience.For(1), CallPatience::kSlack * kTime);
  EXPECT_EQ(patience.For(2000), kLongest);
}

TEST(CallPatienceTest, QuickCallsLeaveTimeForAnInterruption) {
  EXPECT_EQ(AfterCalls(20, 10, absl::Milliseconds(1)).For(10), kLongest / CallPatience::kRange);
}

TEST(CallPatienceTest, OneSlowCallCountsUntilItIsNotRecent) {
  CallPatience patience = AfterCalls(20, 10, kTime);
  patience.Record(10, 2 * kTime);
  for (size_t i = 1; i < CallPatience::kRecent; ++i) {
    patience.Record(10, kTime);
    ASSERT_EQ(patience.For(10), 2 * CallPatience::kSlack * kTime) << i;
  }
  patience.Record(10, kTime);
  EXPECT_EQ(patience.For(10), CallPatience::kSlack * kTime);
}

TEST(CallPatienceTest, APeerThatBecameSlowerCostsFewTimeouts) {
  CallPatience patience = AfterCalls(100, 10, kTime);
  for (const int doubling : {2, 4}) {
    patience.RecordFailure();
    EXPECT_EQ(patience.For(10), std::min(doubling * CallPatience::kSlack * kTime, kLongest));
  }
  for (size_t i = 0; i < CallPatience::kFewest; ++i) patience.Record(10, 3 * kTime);
  EXPECT_EQ(patience.For(10), 3 * CallPatience::kSlack * kTime);
}

TEST(CallPatienceTest, APeerThatHangsAfterAnInterruptionCostsAFractionOfTheLongestTime) {
  CallPatience patience = AfterCalls(20, 10, absl::Milliseconds(1));
  patience.RecordFailure();
  patience.Record(10, absl::Milliseconds(1));
  EXPECT_EQ(patience.For(10), 2 * kLongest / CallPatience::kRange);
  for (size_t i = 1; i < CallPatience::kFewest; ++i) patience.Record(10, absl::Milliseconds(1));
  EXPECT_EQ(patience.For(10), kLongest / CallPatience::kRange);
}

TEST(CallPatienceTest, FailuresNeverRaiseTheLimitAboveTheLongestTime) {
  CallPatience patience = AfterCalls(20, 10, kTime);
  for (int failure = 0; failure < 100; ++failure) patience.RecordFailure();
  EXPECT_EQ(patience.For(10), kLongest);
}

}  // namespace
}  // namespace bastion
