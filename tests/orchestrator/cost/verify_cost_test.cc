#include "orchestrator/cost/verify_cost.h"

#include <random>

#include "gtest/gtest.h"
#include "orchestrator/cost/staircase.h"

namespace bastion {
namespace {

constexpr bool kPlain = false;

// One sequence: 1 ms, and 0.1 ms per row.
VerifyCost Sample(double sequence_seconds = 0.15e-3) {
  std::vector<ProfilePoint> points;
  for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128}) {
    points.push_back({rows, 0, 1e-3 + 1e-4 * rows, 0});
  }
  const auto estimator = [&] { return std::make_unique<Staircase>(*Staircase::Make(points)); };
  return {estimator(), estimator(), sequence_seconds};
}

// Every further sequence takes another 0.15 ms.
absl::Duration Truth(const VerifySize& size) {
  return absl::Milliseconds(1 + 0.1 * size.rows + 0.15 * (size.sequences - 1));
}

VerifySize Roots(int sequences) { return {.sequences = sequences, .rows = sequences}; }

TEST(VerifyCostTest, EverySequenceAfterTheFirstCostsMoreThanItsRows) {
  const VerifyCost cost = Sample();
  for (const int sequences : {1, 4, 32}) {
    EXPECT_NEAR(absl::FDivDuration(cost.Predict(Roots(sequences), kPlain), Truth(Roots(sequences))),
                1, 1e-6);
  }
}

TEST(VerifyCostTest, TheCurveEqualsThePredictionForEachNumberOfNodes) {
  VerifyCost cost = Sample();
  for (int i = 0; i < 20; ++i) cost.Observe(Roots(4), kPlain, Truth(Roots(4)));
  const std::vector<double> curve = cost.Curve(Roots(4), 20, kPlain);
  ASSERT_EQ(curve.size(), 21);
  for (int nodes = 0; nodes <= 20; ++nodes) {
    const VerifySize size = {.sequences = 4, .rows = 4 + nodes};
    EXPECT_NEAR(curve[nodes], absl::ToDoubleSeconds(cost.Predict(size, kPlain)), 1e-9) << nodes;
  }
}

TEST(VerifyCostTest, FollowsADeviceWhoseSpeedChanges) {
  VerifyCost cost = Sample();
  for (const double factor : {1.0, 2.0, 1.0}) {
    for (int i = 0; i < 50; ++i) cost.Observe(Roots(32), kPlain, factor * Truth(Roots(32)));
    EXPECT_NEAR(absl::FDivDuration(cost.Predict(Roots(32), kPlain), factor * Truth(Roots(32))), 1,
                0.05);
  }
}

TEST(VerifyCostTest, RecoversFromAProfileBesideANoisyNeighbor) {
  VerifyCost cost = Sample(/*sequence_seconds=*/5e-3);
  for (int i = 0; i < 50; ++i) cost.Observe(Roots(32), kPlain, Truth(Roots(32)));
  EXPECT_NEAR(absl::FDivDuration(cost.Predict(Roots(32), kPlain), Truth(Roots(32))), 1, 0.05);
}

TEST(VerifyCostTest, RecoversFromProfiledContextsThatAreTooSlow) {
  std::vector<ProfilePoint> points;
  for (const int rows : {1, 2, 4, 8, 16, 32, 64, 128}) {
    points.push_back({rows, 0, 1e-3 + 1e-4 * rows, 0});
    points.push_back({rows, 256, 2e-3 + 1e-4 * rows, 0});  // 1 ms per sequence.
  }
  const auto estimator = [&] { return std::make_unique<Staircase>(*Staircase::Make(points)); };
  VerifyCost cost(estimator(), estimator(), /*sequence_seconds=*/0);
  const auto size = [](int nodes) {
    return VerifySize{.sequences = 32, .rows = 32 + nodes, .context = 128};
  };
  const auto truth = [](const VerifySize& call) { return absl::Milliseconds(1 + 0.1 * call.rows); };
  for (int i = 0; i < 100; ++i) cost.Observe(size(0), kPlain, truth(size(0)));
  // The prediction is right here, and nearly right for sizes that were never observed.
  EXPECT_NEAR(absl::FDivDuration(cost.Predict(size(0), kPlain), truth(size(0))), 1, 0.05);
  EXPECT_NEAR(absl::FDivDuration(cost.Predict(size(64), kPlain), truth(size(64))), 1, 0.2);
}

TEST(VerifyCostTest, RareStallsChangeThePredictionLittle) {
  VerifyCost cost = Sample();
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    cost.Observe(Roots(32), kPlain, (random() % 50 == 0 ? 20 : 1) * Truth(Roots(32)));
  }
  for (int i = 0; i < 10; ++i) cost.Observe(Roots(32), kPlain, Truth(Roots(32)));
  EXPECT_NEAR(absl::FDivDuration(cost.Predict(Roots(32), kPlain), Truth(Roots(32))), 1, 0.1);
}

}  // namespace
}  // namespace bastion
