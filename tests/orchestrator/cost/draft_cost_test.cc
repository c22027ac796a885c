#include "orchestrator/cost/draft_cost.h"

#include "gtest/gtest.h"
#include "tests/support/curve_estimator.h"

namespace bastion {
namespace {

using ::bastion::testing::CurveEstimator;

double Milliseconds(const DraftCost& cost, int sequences) {
  return absl::ToDoubleMilliseconds(cost.Predict(sequences));
}

// Nearly constant up to 32 rows, then linear.
double Verify(int rows) { return rows <= 32 ? 10 : 10 + 0.5 * (rows - 32); }

TEST(DraftCostTest, TheFirstDraftScalesTheShapeOfTheVerifyCost) {
  DraftCost cost{CurveEstimator(Verify)};
  EXPECT_GT(Milliseconds(cost, 1), 0);
  cost.Observe({1, absl::Milliseconds(4)});
  EXPECT_NEAR(Milliseconds(cost, 1), 4, 1e-6);
  EXPECT_NEAR(Milliseconds(cost, 4), 4, 1e-6);
  // 64 rows take 2.6 times as long as 8.
  EXPECT_NEAR(Milliseconds(cost, 8), 4 * 2.6, 1e-6);
  EXPECT_EQ(cost.Predict(0), absl::ZeroDuration());
}

TEST(DraftCostTest, NoiseInTheFirstDraftsDoesNotRaiseTheCost) {
  DraftCost cost{CurveEstimator(Verify)};
  for (const double milliseconds : {9.0, 4.0, 12.0, 5.0}) {
    cost.Observe({1, absl::Milliseconds(milliseconds)});
  }
  EXPECT_NEAR(Milliseconds(cost, 1), 4, 1e-6);
}

TEST(DraftCostTest, LearnsTheCostOfEachBatchSize) {
  DraftCost cost{CurveEstimator(Verify)};
  for (int i = 0; i < 200; ++i) {
    cost.Observe({1, absl::Milliseconds(3)});
    cost.Observe({8, absl::Milliseconds(5)});
  }
  EXPECT_NEAR(Milliseconds(cost, 1), 3, 0.1);
  EXPECT_NEAR(Milliseconds(cost, 8), 5, 0.1);
}

TEST(DraftCostTest, TheCurveNeverDecreasesAndStartsAtZero) {
  DraftCost cost{CurveEstimator(Verify)};
  for (int i = 0; i < 50; ++i) cost.Observe({8, absl::Milliseconds(0.5)});
  const std::vector<double> curve = cost.Curve(20);
  ASSERT_EQ(curve.size(), 21u);
  EXPECT_EQ(curve[0], 0);
  for (int m = 1; m <= 20; ++m) {
    EXPECT_GE(curve[m], curve[m - 1]);
    EXPECT_NEAR(curve[m], absl::ToDoubleSeconds(cost.Predict(m)), 1e-9);
  }
}

TEST(DraftCostTest, OneLateReplyChangesLittle) {
  DraftCost cost{CurveEstimator(Verify)};
  for (int i = 0; i < 20; ++i) cost.Observe({1, absl::Milliseconds(4)});
  cost.Observe({1, absl::Seconds(4)});
  EXPECT_LT(Milliseconds(cost, 1), 5);
}

TEST(DraftCostTest, FailuresThatTakeLongRaiseTheCostAndFastOnesDoNotLowerIt) {
  DraftCost cost{CurveEstimator(Verify)};
  cost.Observe({1, absl::Milliseconds(4)});
  cost.ObserveFailure(1, absl::Microseconds(1));
  EXPECT_NEAR(Milliseconds(cost, 1), 4, 1e-6);
  for (int i = 0; i < 50; ++i) cost.ObserveFailure(1, absl::Milliseconds(30));
  EXPECT_GT(Milliseconds(cost, 1), 25);
}

// Every request's first draft reads its prompt, which takes ten times as long as a draft.
TEST(DraftCostTest, FirstDraftsDoNotRaiseTheCostOfADraft) {
  DraftCost cost{CurveEstimator(Verify)};
  const DraftCall first = {.sequences = 1, .spent = absl::Milliseconds(40), .excess_tokens = 500};
  for (int request = 0; request < 50; ++request) {
    cost.Observe(first);
    for (int cycle = 0; cycle < 3; ++cycle) cost.Observe({1, absl::Milliseconds(4)});
    EXPECT_NEAR(Milliseconds(cost, 1), 4, 1e-6) << "request " << request;
  }
  EXPECT_NEAR(1e3 * cost.CatchUp(500), 36, 1);  // The rest of the first draft.
}

TEST(DraftCostTest, TheDraftersTraceTellsExcessTokensFromTheDraft) {
  DraftCost cost{CurveEstimator(Verify)};
  for (int i = 0; i < 20; ++i) cost.Observe({1, absl::Milliseconds(4)});
  DraftCall call = {.sequences = 1, .spent = absl::Milliseconds(20), .excess_tokens = 1000};
  call.trace.drafts = 1;
  call.trace.context_tokens = 1000;
  call.trace.context = absl::Milliseconds(10);
  // The draft itself was slow this time: 10 ms. That says nothing about excess tokens.
  for (int i = 0; i < 50; ++i) cost.Observe(call);
  EXPECT_NEAR(1e3 * cost.CatchUp(1000), 10, 0.1);
  EXPECT_NEAR(Milliseconds(cost, 1), 4, 0.1);
}

// Among many requests, one has nearly always just begun.
TEST(DraftCostTest, CallsThatAllHaveExcessTokensShowWhatADraftCosts) {
  DraftCost cost{CurveEstimator(Verify)};
  for (int i = 0; i < 20; ++i) cost.Observe({1, absl::Milliseconds(4)});
  ASSERT_NEAR(Milliseconds(cost, 64), 100, 1e-6);
  DraftCall call = {
      .sequences = 64, .spent = absl::Milliseconds(160), .excess_tokens = 200, .usual_tokens = 200};
  call.trace.drafts = 64;
  call.trace.context_tokens = 400;
  call.trace.context = absl::Milliseconds(80);
  call.trace.forward = absl::Milliseconds(75);
  for (int i = 0; i < 50; ++i) cost.Observe(call);
  EXPECT_NEAR(Milliseconds(cost, 64), 120, 2);
  EXPECT_NEAR(1e3 * cost.CatchUp(200), 40, 0.5);
}

TEST(DraftCostTest, ATraceThatClaimsMoreThanTheCallTookIsCut) {
  DraftCost cost{CurveEstimator(Verify)};
  for (int i = 0; i < 20; ++i) cost.Observe({1, absl::Milliseconds(4)});
  DraftCall call = {.sequences = 1, .spent = absl::Milliseconds(20), .excess_tokens = 1000};
  call.trace.drafts = 1;
  call.trace.context_tokens = 1000;
  call.trace.context = absl::Hours(1000);
  for (int i = 0; i < 50; ++i) cost.Observe(call);
  EXPECT_NEAR(1e3 * cost.CatchUp(1000), 20, 0.1);  // The whole call, and no more.
  EXPECT_NEAR(Milliseconds(cost, 1), 4, 0.1);
}

// The drafter adds the context of a long prompt between the calls, or finds it in its cache.
TEST(DraftCostTest, ExcessTokensThatWereNotProcessedDoNotLookCheap) {
  DraftCost cost{CurveEstimator(Verify)};
  for (int i = 0; i < 20; ++i) cost.Observe({1, absl::Milliseconds(4)});
  DraftCall prompt = {.sequences = 1, .spent = absl::Milliseconds(100), .excess_tokens = 500};
  prompt.trace.drafts = 1;
  prompt.trace.context_tokens = 500;
  prompt.trace.context = absl::Milliseconds(50);
  for (int i = 0; i < 50; ++i) cost.Observe(prompt);
  DraftCall put_off = {.sequences = 1, .spent = absl::Microseconds(50), .excess_tokens = 30000};
  put_off.trace.drafts = 1;
  for (const int context_tokens : {0, DraftCost::kUsualTokens, -1}) {
    put_off.trace.context_tokens = context_tokens;
    for (int i = 0; i < 20; ++i) cost.Observe(put_off);
  }
  EXPECT_NEAR(1e3 * cost.CatchUp(500), 50, 1);
  EXPECT_NEAR(Milliseconds(cost, 1), 4, 0.1);
}

TEST(DraftCostTest, IgnoresTimesThatAreNotPositive) {
  DraftCost cost{CurveEstimator(Verify)};
  const double before = Milliseconds(cost, 1);
  cost.Observe({1, absl::ZeroDuration()});
  EXPECT_EQ(Milliseconds(cost, 1), before);
}

}  // namespace
}  // namespace bastion
