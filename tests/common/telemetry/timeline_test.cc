#include "common/telemetry/timeline.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

TimelineSlice SliceAt(int start, int duration = 1) {
  return {"lane", "slice", absl::Milliseconds(start), absl::Milliseconds(duration)};
}

std::vector<int> Starts(const std::vector<TimelineSlice>& slices) {
  std::vector<int> starts;
  for (const TimelineSlice& slice : slices) {
    starts.push_back(static_cast<int>(absl::ToInt64Milliseconds(slice.start)));
  }
  return starts;
}

TEST(TimelineTest, ReturnsTheSlicesThatEndedAfterATime) {
  Timeline timeline;
  timeline.Add({SliceAt(0), SliceAt(5, 10), SliceAt(20)});
  EXPECT_THAT(Starts(timeline.Since(absl::Milliseconds(-1))), ::testing::ElementsAre(0, 5, 20));
  EXPECT_THAT(Starts(timeline.Since(absl::Milliseconds(1))), ::testing::ElementsAre(5, 20));
  EXPECT_THAT(Starts(timeline.Since(absl::Milliseconds(15))), ::testing::ElementsAre(20));
  EXPECT_THAT(Starts(timeline.Since(absl::Seconds(1))), ::testing::IsEmpty());
}

TEST(TimelineTest, AFullRingForgetsTheOldestSlices) {
  Timeline timeline(3);
  for (int i = 0; i < 8; ++i) timeline.Add({SliceAt(i)});
  EXPECT_THAT(Starts(timeline.Since(absl::ZeroDuration())), ::testing::ElementsAre(5, 6, 7));
}

TEST(TimelineTest, TheSlicesOfACallFollowEachOtherInsideIt) {
  CallSlices slices("lane", "call", absl::Milliseconds(10));
  slices.set_rows(7);
  slices.AddPart("a", absl::Milliseconds(2));
  slices.AddPart("none", absl::ZeroDuration());
  slices.AddPart("b", absl::Milliseconds(3));
  const auto all = slices.Finish(absl::Milliseconds(20));
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].duration, absl::Milliseconds(10));
  EXPECT_EQ(all[0].rows, 7);
  EXPECT_EQ(all[1].start, absl::Milliseconds(10));
  EXPECT_EQ(all[2].start, absl::Milliseconds(12));
  EXPECT_EQ(std::string(all[2].name), "b");
  EXPECT_EQ(all[2].duration, absl::Milliseconds(3));
}

}  // namespace
}  // namespace bastion
