#include "orchestrator/cost/expert_cost.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "gtest/gtest.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cost/staircase.h"

namespace bastion {
namespace {

constexpr int kExperts = 64, kChosen = 4;

// The experts that `rows` independent rows touch.
double Touched(double rows) {
  return kExperts * (1 - std::pow(1 - static_cast<double>(kChosen) / kExperts, rows));
}
// The experts that `rows` rows of a text touch, in which further rows count as 0.4.
double TouchedByText(int rows) { return Touched(1 + 0.4 * (rows - 1)); }

// 2 ms, 0.05 ms per row, and 0.1 ms per expert.
double Seconds(double rows, double experts) { return 1e-3 * (2 + 0.05 * rows + 0.1 * experts); }

LatencyProfile ExpertTable() {
  LatencyProfile table;
  for (const int rows : {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128}) {
    const double seconds = Seconds(rows, Touched(rows));
    table.points.push_back({rows, 0, seconds, seconds, false, Touched(rows)});
  }
  table.expert_seconds = 1e-4;
  return table;
}

CostModel Model(const LatencyProfile& table) {
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  return *CostModel::Fit(target, table);
}

double Predict(const CostModel& costs, int rows) {
  return absl::ToDoubleSeconds(costs.PredictVerify({.rows = rows}, false));
}

void Observe(CostModel& costs, int rows, double experts, double seconds) {
  TimingTrace trace;
  trace.rows = rows;
  trace.experts = experts;
  trace.forward = absl::Seconds(seconds);
  costs.ObserveVerify({.rows = rows}, false, trace, {trace.forward, {}});
}

void ObserveText(CostModel& costs, int rows) {
  Observe(costs, rows, TouchedByText(rows), Seconds(rows, TouchedByText(rows)));
}

TEST(ExpertCostTest, TheFirstPredictionIsThatOfTheTable) {
  const CostModel costs = Model(ExpertTable());
  for (const int rows : {1, 8, 64}) {
    EXPECT_NEAR(Predict(costs, rows) / Seconds(rows, Touched(rows)), 1, 1e-6);
  }
}

TEST(ExpertCostTest, CallsOfOneSizeTeachWhatTheTextTouchesAtAllSizes) {
  LatencyProfile table = ExpertTable();
  CostModel costs = Model(table);
  table.expert_seconds = 0;
  CostModel without = Model(table);
  for (int i = 0; i < 50; ++i) {
    ObserveText(costs, 8);
    ObserveText(without, 8);
  }
  for (const int rows : {1, 2, 4, 8, 16, 32, 64}) {
    const double truth = Seconds(rows, TouchedByText(rows));
    EXPECT_NEAR(Predict(costs, rows) / truth, 1, rows == 8 ? 0.01 : 0.03) << rows;
  }
  // The table alone adjusts the size that it sees, and its neighbors.
  EXPECT_NEAR(Predict(without, 8) / Seconds(8, TouchedByText(8)), 1, 0.02);
  EXPECT_LT(Predict(without, 1) / Seconds(1, kChosen), 0.95);
}

TEST(ExpertCostTest, ACallThatTouchesManyExpertsDoesNotMakeTheTableSlower) {
  CostModel costs = Model(ExpertTable());
  for (int i = 0; i < 200; ++i) ObserveText(costs, 16);
  const double before = Predict(costs, 1);
  // One call of unusual tokens: its time is explained by its experts.
  Observe(costs, 16, 60, Seconds(16, 60));
  EXPECT_NEAR(Predict(costs, 1) / before, 1, 1e-6);
}

TEST(ExpertCostTest, FollowsADeviceThatBecomesSlower) {
  CostModel costs = Model(ExpertTable());
  for (int i = 0; i < 200; ++i) {
    const int rows = std::array{1, 4, 16, 64}[i % 4];
    Observe(costs, rows, TouchedByText(rows), 3 * Seconds(rows, TouchedByText(rows)));
  }
  for (const int rows : {1, 4, 16, 64}) {
    EXPECT_NEAR(Predict(costs, rows) / (3 * Seconds(rows, TouchedByText(rows))), 1, 0.05) << rows;
  }
}

TEST(ExpertCostTest, TheCurveEqualsThePredictionsAndNeverDecreases) {
  CostModel costs = Model(ExpertTable());
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    const int rows = 1 + static_cast<int>(random() % 64);
    Observe(costs, rows, 4 + random() % 60, 1e-3 * (1 + random() % 10));
    const BatchCost cost = costs.CostOf({.rows = 1}, /*max_nodes=*/150, /*max_drafts=*/0);
    const double overhead = cost.verify[9] - Predict(costs, 10);
    for (int n = 1; n <= 150; ++n) {
      ASSERT_GE(cost.verify[n], cost.verify[n - 1]);
      ASSERT_NEAR(cost.verify[n] - overhead, Predict(costs, n + 1), 1e-9);
    }
  }
}

TEST(ExpertCostTest, ATextThatTouchesFewExpertsAtEverySizeIsLearnedPerSize) {
  // No diversity explains 4 to 12 experts at all sizes.
  const std::map<int, double> touched = {{2, 6}, {4, 8}, {16, 11}, {64, 12}};
  CostModel costs = Model(ExpertTable());
  for (int i = 0; i < 100; ++i) {
    for (const auto& [rows, experts] : touched) {
      Observe(costs, rows, experts, Seconds(rows, experts));
    }
  }
  for (const auto& [rows, experts] : touched) {
    EXPECT_NEAR(Predict(costs, rows) / Seconds(rows, experts), 1, 0.03) << rows;
  }
}

// Quantiles of the relative errors.
struct Errors {
  std::vector<double> values;
  void Add(double predicted, double measured) {
    values.push_back(std::abs(predicted - measured) / measured);
  }
  double At(double quantile) {
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(quantile * static_cast<double>(values.size()))];
  }
};

TEST(ExpertCostTest, NoisyTextsArePredictedAsWellAsTheMeanOfEachSizeInHindsight) {
  CostModel costs = Model(ExpertTable());
  std::mt19937 random(1);
  std::normal_distribution<> normal;
  Errors errors, hindsight;
  std::map<int, std::pair<double, int>> sums;
  std::vector<std::pair<int, double>> calls;
  for (int i = 0; i < 2000; ++i) {
    const int rows = std::array{1, 2, 5, 9, 17, 33, 64}[random() % 7];
    const double experts =
        rows == 1 ? kChosen : TouchedByText(rows) * std::exp(0.08 * normal(random));
    const double seconds = Seconds(rows, experts) * std::exp(0.03 * normal(random));
    errors.Add(Predict(costs, rows), seconds);
    Observe(costs, rows, experts, seconds);
    sums[rows].first += seconds;
    ++sums[rows].second;
    calls.emplace_back(rows, seconds);
  }
  for (const auto& [rows, seconds] : calls) {
    hindsight.Add(sums[rows].first / sums[rows].second, seconds);
  }
  EXPECT_LT(errors.At(0.5), 0.05);
  EXPECT_LT(errors.At(0.95), 0.15);
  EXPECT_LT(errors.At(0.5), 1.3 * hindsight.At(0.5));
  EXPECT_LT(errors.At(0.95), 1.3 * hindsight.At(0.95));
}

TEST(ExpertCostTest, CallsThatTouchAllExpertsDoNotTellHowDiverseTheirRowsAre) {
  const std::shared_ptr<ExpertCost> experts = ExpertCost::Make(ExpertTable());
  const double before = experts->Expected(8), all = experts->Expected(128);
  experts->Observe(400, all);
  EXPECT_EQ(experts->Expected(8), before);
  experts->Observe(400, 32);
  EXPECT_LT(experts->Expected(8), before);
}

TEST(ExpertCostTest, OneRowTellsNothingAndNoReportTeachesNothing) {
  const std::shared_ptr<ExpertCost> experts = ExpertCost::Make(ExpertTable());
  const double before = experts->Expected(8);
  experts->Observe(1, kChosen);
  experts->Observe(8, 0);
  EXPECT_EQ(experts->Expected(8), before);
}

TEST(ExpertCostTest, ATargetWithoutExpertsHasNoSuchCost) {
  LatencyProfile dense = ExpertTable();
  for (ProfilePoint& point : dense.points) point.experts = 0;
  EXPECT_EQ(ExpertCost::Make(dense), nullptr);
  LatencyProfile no_slope = ExpertTable();
  no_slope.expert_seconds = 0;
  EXPECT_EQ(ExpertCost::Make(no_slope), nullptr);
  EXPECT_EQ(ExpertCost::Make({}), nullptr);
  // Its predictions are those of the staircase, bit for bit.
  CostModel costs = Model(dense);
  Staircase staircase = *Staircase::Make(dense.points);
  for (int i = 0; i < 50; ++i) {
    const int rows = 1 + 7 * i % 40;
    EXPECT_EQ(costs.PredictVerify({.rows = rows}, true), staircase.Predict(rows, 0));
    TimingTrace trace;
    trace.forward = absl::Microseconds(2000 + 90 * rows);
    costs.ObserveVerify({.rows = rows}, true, trace, {trace.forward, {}});
    staircase.Observe(rows, 0, trace.forward);
  }
}

TEST(ExpertCostTest, AnExpertTimeThatIsTooLargeLeavesPositiveCosts) {
  LatencyProfile table = ExpertTable();
  table.expert_seconds = 1;
  CostModel costs = Model(table);
  for (int i = 0; i < 100; ++i) Observe(costs, 32, 8, Seconds(32, 8));
  EXPECT_GT(Predict(costs, 1), 0);
  EXPECT_NEAR(Predict(costs, 32) / Seconds(32, 8), 1, 0.05);
}

}  // namespace
}  // namespace bastion
