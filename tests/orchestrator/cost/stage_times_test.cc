#include "orchestrator/cost/stage_times.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TimingTrace Trace() {
  TimingTrace trace;
  trace.queue = absl::Milliseconds(1);
  trace.layout = absl::Milliseconds(2);
  trace.forward = absl::Milliseconds(30);
  trace.accept = absl::Milliseconds(4);
  trace.commit = absl::Milliseconds(5);
  trace.feature_export = absl::Milliseconds(6);
  trace.audit = absl::Milliseconds(70);
  return trace;
}

TEST(StageTimesTest, EachPartOfAVerifyCallIsInExactlyOneStage) {
  const StageTimes times = VerifyStages(Trace(), absl::Milliseconds(138));
  EXPECT_EQ(times.verify_queue, absl::Milliseconds(1));
  EXPECT_EQ(times.verify, absl::Milliseconds(36));
  EXPECT_EQ(times.commit, absl::Milliseconds(11));
  EXPECT_EQ(times.audit, absl::Milliseconds(70));
  EXPECT_EQ(times.transfer, absl::Milliseconds(20));
  EXPECT_EQ(times.total(), absl::Milliseconds(138));
}

TEST(StageTimesTest, CyclesAddUpStageByStage) {
  StageTimes times = VerifyStages(Trace(), absl::Milliseconds(138));
  times.draft = absl::Milliseconds(8);
  times.tree = absl::Milliseconds(9);
  times += times;
  EXPECT_EQ(times.draft, absl::Milliseconds(16));
  EXPECT_EQ(times.tree, absl::Milliseconds(18));
  EXPECT_EQ(times.verify, absl::Milliseconds(72));
  EXPECT_EQ(times.total(), 2 * absl::Milliseconds(138 + 8 + 9));
}

}  // namespace
}  // namespace bastion
