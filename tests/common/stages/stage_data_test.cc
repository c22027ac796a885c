#include "common/stages/stage_data.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(AcceptanceTest, CommittedLengthCountsTheRoot) {
  Acceptance acceptance;
  EXPECT_EQ(acceptance.committed_length(), 1);
  acceptance.path = {1, 4, 9};
  EXPECT_EQ(acceptance.committed_length(), 4);
}

TEST(TimingTraceTest, VerifySumsLayoutForwardAndAccept) {
  TimingTrace trace;
  trace.queue = absl::Seconds(100);
  trace.layout = absl::Milliseconds(1);
  trace.forward = absl::Milliseconds(20);
  trace.accept = absl::Milliseconds(300);
  trace.commit = absl::Milliseconds(4000);
  trace.feature_export = absl::Milliseconds(50000);
  EXPECT_EQ(trace.verify(), absl::Milliseconds(321));
}

TEST(FrontierTest, ContainsOnlyTheRootByDefault) {
  const Frontier frontier;
  ASSERT_EQ(frontier.paths.size(), 1u);
  EXPECT_TRUE(frontier.paths[0].empty());
}

}  // namespace
}  // namespace bastion
