#include "orchestrator/cost/cost_model.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

using Estimator = CostModel::Estimator;

TargetInfo Target() {
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  return target;
}

// 1, 8 and 16 rows take 10, 11 and 30 ms, which no line fits. The round trips took 1 ms more.
CalibrationTable Table() {
  return {{{1, 100, 0.010, 0.011}, {8, 100, 0.011, 0.012}, {16, 100, 0.030, 0.031}}};
}

TimingTrace Trace(int rows, std::vector<int> contexts, absl::Duration forward) {
  TimingTrace trace;
  trace.forward = forward;
  trace.rows = rows;
  trace.contexts = std::move(contexts);
  return trace;
}

TEST(CostModelTest, CycleIsDraftPlusOverheadPlusVerify) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  costs.ObserveDraft(absl::Milliseconds(2));
  const CycleCost cost = costs.At(Estimator::kMeasured, 100);
  EXPECT_NEAR(cost.PlainSeconds(), 0.011, 1e-9);
  EXPECT_NEAR(cost.Seconds(7), 0.002 + 0.001 + 0.011, 1e-9);
  EXPECT_EQ(cost.Verify(15), absl::Milliseconds(30));
  EXPECT_EQ(costs.measured_rows(), 16);
}

TEST(CostModelTest, ThePaperPolicyHasItsOwnEstimator) {
  const CostModel costs = *CostModel::Fit(Target(), Table());
  EXPECT_EQ(costs.At(Estimator::kPaper, 100).verify->name(), "static");
  EXPECT_EQ(costs.At(Estimator::kMeasured, 100).verify->name(), "staircase");
  const CostModel other =
      *CostModel::Fit(Target(), Table(), {.paper = "ema+calib", .measured = "ema"});
  EXPECT_EQ(other.At(Estimator::kPaper, 100).verify->name(), "ema+calib");
  EXPECT_EQ(other.At(Estimator::kMeasured, 100).verify->name(), "ema");
}

TEST(CostModelTest, LearnsFromTheTraceAndTheRoundTrip) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  for (int i = 0; i < 200; ++i) {
    TimingTrace trace = Trace(8, {100}, absl::Milliseconds(22));
    trace.queue = absl::Seconds(5);  // Time in the queue must not count as a cost.
    costs.ObserveVerify(trace, absl::Seconds(5) + absl::Milliseconds(25));
  }
  const CycleCost cost = costs.At(Estimator::kMeasured, 100);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(cost.Verify(7)), 22, 0.1);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(cost.overhead), 3, 0.1);
}

TEST(CostModelTest, SeveralSequencesUseTheirMeanContext) {
  CostModel costs = *CostModel::Fit(
      Target(), {{{1, 100, 0.010, 0}, {8, 100, 0.010, 0}, {1, 300, 0.030, 0}, {8, 300, 0.030, 0}}});
  // At the mean context of 200, 20 ms are predicted and observed, so the model does not change.
  costs.ObserveVerify(Trace(8, {100, 300}, absl::Milliseconds(20)), absl::Milliseconds(20));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.At(Estimator::kMeasured, 100).Verify(7)), 10, 1e-6);
}

TEST(CostModelTest, EmptyTraceIsIgnored) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  costs.ObserveVerify(TimingTrace(), absl::Seconds(1));
  EXPECT_NEAR(costs.At(Estimator::kMeasured, 100).PlainSeconds(), 0.011, 1e-9);
}

TEST(CostModelTest, InvalidTargetTableOrEstimatorIsAnError) {
  EXPECT_FALSE(CostModel::Fit(TargetInfo(), Table()).ok());
  EXPECT_FALSE(CostModel::Fit(Target(), CalibrationTable()).ok());
  EXPECT_FALSE(CostModel::Fit(Target(), Table(), {.paper = "oracle"}).ok());
  EXPECT_FALSE(CostModel::Fit(Target(), Table(), {.measured = "oracle"}).ok());
}

}  // namespace
}  // namespace bastion
