#include "orchestrator/cost/running_cost.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(RunningCostTest, TheFirstObservationBecomesTheAverage) {
  RunningCost cost;
  EXPECT_EQ(cost.Predict(), absl::ZeroDuration());
  cost.Observe(absl::Milliseconds(10));
  EXPECT_EQ(cost.Predict(), absl::Milliseconds(10));
}

TEST(RunningCostTest, AnObservationMovesTheAverageByATenth) {
  RunningCost cost(absl::Milliseconds(10));
  cost.Observe(absl::Milliseconds(20));
  EXPECT_EQ(cost.Predict(), absl::Milliseconds(11));
}

TEST(RunningCostTest, ALateReplyIsCappedAtFourTimesTheAverage) {
  RunningCost cost(absl::Milliseconds(10));
  cost.Observe(absl::Seconds(60));
  EXPECT_EQ(cost.Predict(), absl::Milliseconds(13));
}

TEST(RunningCostTest, IgnoresTimesThatAreNotPositive) {
  RunningCost cost(absl::Milliseconds(10));
  cost.Observe(absl::ZeroDuration());
  cost.Observe(absl::Milliseconds(-5));
  EXPECT_EQ(cost.Predict(), absl::Milliseconds(10));
}

}  // namespace
}  // namespace bastion
