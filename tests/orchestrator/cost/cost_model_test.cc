#include "orchestrator/cost/cost_model.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TargetInfo Target() {
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  return target;
}

// 1, 8 and 16 rows take 10, 11 and 30 ms, which no line fits. The round trips took 1 ms more.
LatencyProfile Table() {
  return {{{1, 100, 0.010, 0.011}, {8, 100, 0.011, 0.012}, {16, 100, 0.030, 0.031}}};
}

TimingTrace Trace(int rows, std::vector<int> contexts, absl::Duration forward) {
  TimingTrace trace;
  trace.forward = forward;
  trace.rows = rows;
  trace.contexts = std::move(contexts);
  return trace;
}

TEST(CostModelTest, ACycleCostsDraftPlusOverheadPlusVerify) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  costs.draft().Observe({1, absl::Milliseconds(2)});
  const BatchCost cost = costs.CostOf({.rows = 1, .context = 100}, /*max_nodes=*/15, 1);
  ASSERT_EQ(cost.max_nodes(), 15);
  EXPECT_NEAR(cost.verify[0], 0.011, 1e-9);
  EXPECT_NEAR(cost.verify[7], 0.001 + 0.011, 1e-9);
  EXPECT_NEAR(cost.verify[15], 0.001 + 0.030, 1e-9);
  EXPECT_NEAR(cost.draft[1], 0.002, 1e-9);
  EXPECT_EQ(cost.draft[0], 0);
  EXPECT_EQ(costs.PredictVerify({.rows = 16, .context = 100}, false), absl::Milliseconds(30));
  EXPECT_EQ(costs.measured_rows(), 16);
}

TEST(CostModelTest, ThePaperPolicyHasItsOwnEstimators) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  costs.draft().Observe({1, absl::Milliseconds(2)});
  const CycleCost cost = costs.PaperCost(100);
  EXPECT_EQ(cost.verify->name(), "static");
  EXPECT_EQ(cost.draft, absl::Milliseconds(2));
  EXPECT_NEAR(absl::ToDoubleMilliseconds(cost.overhead), 1, 1e-6);
  EXPECT_EQ(costs.PaperCost(100, {PaperEstimator::Kind::kEma}).verify->name(), "ema");
  EXPECT_EQ(costs.PaperCost(100, {PaperEstimator::Kind::kEmaCalib}).verify->name(), "ema+calib");
}

TEST(CostModelTest, AllEstimatorsOfThePaperLearnFromEveryCycle) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  const auto seconds = [&](PaperEstimator::Kind kind) {
    return absl::ToDoubleSeconds(costs.PaperCost(100, {kind}).Verify(7));
  };
  const double line = seconds(PaperEstimator::Kind::kStatic);
  EXPECT_EQ(seconds(PaperEstimator::Kind::kEmaCalib), line);
  costs.ObserveVerify({.rows = 8, .context = 100}, false, Trace(8, {100}, absl::Seconds(2 * line)),
                      {absl::Seconds(2 * line), {}});
  EXPECT_EQ(seconds(PaperEstimator::Kind::kStatic), line);
  EXPECT_NEAR(seconds(PaperEstimator::Kind::kEma), 2 * line, 1e-9);         // The first sets k.
  EXPECT_NEAR(seconds(PaperEstimator::Kind::kEmaCalib), 1.1 * line, 1e-9);  // 0.9 + 0.1·2
}

TEST(CostModelTest, TheOverheadOfThePaperIncludesTreeConstruction) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  // The round trip takes 1 ms more than the verify, the trees 3 ms.
  for (int i = 0; i < 500; ++i) {
    costs.ObserveVerify({.rows = 8, .context = 100}, true, Trace(8, {100}, absl::Milliseconds(11)),
                        {.round_trip = absl::Milliseconds(12), .tree = absl::Milliseconds(3)});
  }
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PaperCost(100).overhead), 1 + 3, 0.1);
}

TEST(CostModelTest, LearnsFromTheTraceTheRoundTripAndTheTreeTime) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  const VerifySize size = {.rows = 8, .context = 100};
  for (int i = 0; i < 1000; ++i) {
    TimingTrace trace = Trace(8, {100}, absl::Milliseconds(22));
    trace.queue = absl::Seconds(5);  // Time in the queue must not count as a cost.
    costs.ObserveVerify(
        size, false, trace,
        {.round_trip = absl::Seconds(5) + absl::Milliseconds(24), .tree = absl::Milliseconds(1)});
  }
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PredictVerify(size, false)), 22, 0.1);
  const BatchCost cost = costs.CostOf(size, 0, 0);
  EXPECT_NEAR(cost.verify[0], 0.024, 2e-4);
  EXPECT_NEAR(cost.planning_seconds, 0.001, 1e-5);
  EXPECT_NEAR(absl::ToDoubleSeconds(costs.PredictCycle(size, 0)), 0.025, 2e-4);
  // The time for the trees of a cycle that rested says nothing about planning.
  for (int i = 0; i < 1000; ++i) {
    costs.ObserveVerify(size, false, Trace(8, {100}, absl::Milliseconds(22)),
                        {absl::Milliseconds(24), absl::ZeroDuration(), /*planned=*/false});
  }
  EXPECT_EQ(costs.CostOf(size, 0, 0).planning_seconds, cost.planning_seconds);
}

// One row takes 10 ms and every further row 1 ms. Per 100 cached tokens, the root takes 1 ms more
// and every further row 0.5 ms.
LatencyProfile TableWithContexts() {
  LatencyProfile table;
  for (const int context : {0, 1000}) {
    for (const int rows : {1, 9, 65}) {
      const double attention = context / 100.0 * (1 + 0.5 * (rows - 1));
      const double seconds = 1e-3 * (10 + (rows - 1) + attention);
      table.points.push_back({rows, context, seconds, seconds});
    }
  }
  return table;
}

TEST(CostModelTest, EverySequenceOfABatchPaysForItsOwnContext) {
  const CostModel costs = *CostModel::Fit(Target(), TableWithContexts());
  // Four roots and eight nodes: 10 + 11 ms, and 500 cached tokens for each sequence.
  const VerifySize size = {.sequences = 4, .rows = 12, .context = 500};
  const double expected = 10 + 11 + 4 * 5 + 8 * 2.5;
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PredictVerify(size, false)), expected, 1e-6);
  const BatchCost cost =
      costs.CostOf({.sequences = 4, .rows = 4, .context = 500}, /*max_nodes=*/20, 4);
  EXPECT_NEAR(1e3 * cost.verify[8], expected, 1e-6);
}

TEST(CostModelTest, ABatchCorrectsTheCostsByItsRelativeError) {
  CostModel costs = *CostModel::Fit(Target(), TableWithContexts());
  const VerifySize size = {.sequences = 4, .rows = 9, .context = 500};
  const absl::Duration before = costs.PredictVerify(size, false);
  for (int i = 0; i < 50; ++i) {
    costs.ObserveVerify(size, false, Trace(9, {500, 500, 500, 500}, 2 * before), {2 * before, {}});
  }
  EXPECT_NEAR(absl::FDivDuration(costs.PredictVerify(size, false), 2 * before), 1, 0.02);
}

TEST(CostModelTest, PromptsPayForTheirOwnContext) {
  const CostModel costs = *CostModel::Fit(Target(), TableWithContexts());
  // Two roots, three nodes, and two chunks of 30 rows together: 10 + 34 ms. 500 cached tokens for
  // each root and node, 200 for each prompt row.
  VerifySize size = {.sequences = 2, .rows = 35, .context = 500};
  size.prompts = {.chunks = 2, .rows = 30, .context = 200};
  const double expected = 10 + 34 + (2 * 5 + 3 * 2.5) + (2 * 2 + 28 * 1);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PredictVerify(size, false)), expected, 1e-6);
  size.rows = 32;
  const BatchCost cost = costs.CostOf(size, /*max_nodes=*/8, 2);
  EXPECT_NEAR(1e3 * cost.verify[3], expected, 1e-6);
  // One sequence beside a prompt, and a prompt alone.
  size = {.sequences = 1, .rows = 31, .context = 500, .prompts = {1, 30, 200}};
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PredictVerify(size, false)),
              10 + 30 + 5 + (2 + 29 * 1), 1e-6);
  size = {.sequences = 0, .rows = 30, .context = 0, .prompts = {1, 30, 200}};
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PredictVerify(size, false)), 10 + 29 + (2 + 29 * 1),
              1e-6);
}

TEST(CostModelTest, CallsWithPromptsTeachOnlyWhatSuchCallsCost) {
  CostModel costs = *CostModel::Fit(Target(), TableWithContexts());
  const VerifySize plain = {.sequences = 2, .rows = 5, .context = 500};
  const VerifySize mixed = {.sequences = 2, .rows = 35, .context = 500, .prompts = {1, 30, 0}};
  const absl::Duration before = costs.PredictVerify(plain, false);
  const double cycle = costs.CostOf(plain, 0, 0).verify[0];
  for (int i = 0; i < 100; ++i) {
    costs.ObserveVerify(mixed, false, Trace(35, {500, 500, 0}, absl::Milliseconds(40)),
                        {absl::Milliseconds(41), {}});
  }
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PredictVerify(mixed, false)), 40, 0.1);
  EXPECT_NEAR(costs.CostOf(mixed, /*max_nodes=*/0, /*max_drafts=*/0).verify[0] - cycle,
              0.04 - absl::ToDoubleSeconds(before), 1e-4);
  EXPECT_EQ(costs.PredictVerify(plain, false), before);
  EXPECT_EQ(costs.CostOf(plain, 0, 0).verify[0], cycle);
}

TEST(CostModelTest, NodesBesidePromptsDoNotGetCheaperWithThePrompts) {
  CostModel costs = *CostModel::Fit(Target(), TableWithContexts());
  const VerifySize mixed = {.sequences = 2, .rows = 32, .context = 500, .prompts = {1, 30, 0}};
  const auto node_seconds = [&](const VerifySize& size) {
    const BatchCost cost = costs.CostOf(size, /*max_nodes=*/8, /*max_drafts=*/0);
    return cost.verify[8] - cost.verify[0];
  };
  const double before = node_seconds(mixed);
  // The prompts take only a tenth of what their rows would cost as nodes.
  const absl::Duration decoding =
      costs.PredictVerify({.sequences = 2, .rows = 2, .context = 500}, false);
  const absl::Duration observed = decoding + absl::Milliseconds(3);
  for (int i = 0; i < 200; ++i) {
    costs.ObserveVerify(mixed, false, Trace(32, {500, 500, 0}, observed), {observed, {}});
  }
  EXPECT_LT(costs.PredictVerify(mixed, false), 1.05 * observed);
  EXPECT_NEAR(node_seconds(mixed) / before, 1, 0.01);
}

TEST(CostModelTest, APlainCallAfterAnotherTellsThePriceOfPlainDecoding) {
  // Calls without prompts, and calls with prompts.
  for (const PromptSize prompts : {PromptSize{}, PromptSize{1, 16, 0}}) {
    CostModel costs = *CostModel::Fit(Target(), TableWithContexts());
    const VerifySize roots = {
        .sequences = 4, .rows = 4 + prompts.rows, .context = 500, .prompts = prompts};
    VerifySize trees = roots;
    trees.rows += 12;
    const auto seconds = [&](const VerifySize& size) {
      return costs.CostOf(size, /*max_nodes=*/0, /*max_drafts=*/0).verify[0];
    };
    const auto observe = [&](const VerifySize& size, absl::Duration verify) {
      costs.ObserveVerify(size, false, Trace(size.rows, {500, 500, 500, 500}, verify),
                          {verify, {}});
    };
    EXPECT_FALSE(costs.CostOf(roots, 0, 0).plain_known);
    const absl::Duration predicted = costs.PredictVerify(roots, false);
    const double roots_before = seconds(roots), trees_before = seconds(trees);
    observe(trees, costs.PredictVerify(trees, false));
    observe(roots, 0.6 * predicted);  // It follows a call with trees.
    EXPECT_FALSE(costs.CostOf(roots, 0, 0).plain_known);
    for (int i = 0; i < 3; ++i) observe(roots, 0.6 * predicted);
    const BatchCost cost = costs.CostOf(roots, 0, 0);
    EXPECT_TRUE(cost.plain_known) << prompts.rows;
    EXPECT_LT(cost.verify[0], 0.7 * roots_before) << prompts.rows;
    EXPECT_GT(seconds(trees), 0.8 * trees_before) << prompts.rows;
  }
}

TEST(CostModelTest, AVerifyAfterADraftHasCostsOfItsOwn) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  const VerifySize size = {.rows = 8, .context = 100};
  for (int i = 0; i < 100; ++i) {
    costs.ObserveVerify(size, true, Trace(8, {100}, absl::Milliseconds(22)),
                        {absl::Milliseconds(23), {}});
  }
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PredictVerify(size, true)), 22, 0.1);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(costs.PredictVerify(size, false)), 11, 0.1);
  // But a draft never makes the verify faster.
  for (int i = 0; i < 100; ++i) {
    costs.ObserveVerify(size, true, Trace(8, {100}, absl::Milliseconds(5)),
                        {absl::Milliseconds(6), {}});
  }
  const BatchCost cost = costs.CostOf(size, 0, 0);
  EXPECT_LT(cost.verify[0], 0.009);
  EXPECT_EQ(cost.verify[0], cost.verify_after_draft[0]);
}

TEST(CostModelTest, EmptyTraceIsIgnored) {
  CostModel costs = *CostModel::Fit(Target(), Table());
  costs.ObserveVerify({.sequences = 0, .rows = 0}, false, TimingTrace(), {absl::Seconds(1), {}});
  EXPECT_NEAR(costs.CostOf({.context = 100}, 0, 0).verify[0], 0.011, 1e-9);
}

TEST(CostModelTest, InvalidTargetTableOrEstimatorIsAnError) {
  EXPECT_FALSE(CostModel::Fit(TargetInfo(), Table()).ok());
  EXPECT_FALSE(CostModel::Fit(Target(), LatencyProfile()).ok());
  EXPECT_FALSE(CostModel::Fit(Target(), Table(), {.measured = "oracle"}).ok());
}

}  // namespace
}  // namespace bastion
