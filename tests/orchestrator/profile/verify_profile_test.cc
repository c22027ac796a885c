#include "orchestrator/profile/verify_profile.h"

#include <algorithm>
#include <map>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/profile/random_tree.h"
#include "tests/orchestrator/profile/profile_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(VerifyProfileTest, MeasuresEveryPointThatFits) {
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<int> rows;
  std::vector<int> contexts;
  for (const ProfilePoint& point : table->points) {
    if (point.context == 16) rows.push_back(point.rows);
    if (point.rows == 1) contexts.push_back(point.context);
  }
  // 128 rows become 16. 1024 tokens become 512 minus 62 tokens of slack and 16 rows.
  EXPECT_THAT(rows, ElementsAre(1, 2, 4, 8, 16));
  EXPECT_THAT(contexts, ElementsAre(16, 256, 434));
  EXPECT_EQ(table->max_rows(), 16);
}

TEST_F(VerifyProfileTest, RecordsTheVerifiersTimeAndTheRoundTrip) {
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok());
  for (const ProfilePoint& point : table->points) {
    const double expected =
        absl::ToDoubleSeconds(TimedVerifier::TrueTime(point.rows, point.context));
    // The sequence is up to an eighth longer than the nominal context.
    EXPECT_GE(point.seconds, expected);
    EXPECT_LE(point.seconds, expected + 1e-6 * std::max(6, point.context / 8 + 2));
    EXPECT_NEAR(point.round_trip_seconds - point.seconds, 300e-6, 1e-9);
  }
  EXPECT_NEAR(table->OverheadSeconds(), 300e-6, 1e-9);
}

TEST_F(VerifyProfileTest, SequencesStayNearTheirContextAndAreClosed) {
  options_.repetitions = 30;
  ASSERT_TRUE(MeasureProfile(verifier_, clock_, options_).ok());
  EXPECT_GT(verifier_.opened, 3);
  EXPECT_EQ(verifier_.live(), 0);
  for (const int context : verifier_.contexts) {
    EXPECT_TRUE((context >= 16 && context <= 22) || (context >= 256 && context <= 290) ||
                (context >= 434 && context <= 490))
        << context;
  }
}

TEST_F(VerifyProfileTest, IgnoresOneStalledForward) {
  verifier_.stall_at = 20;
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok());
  for (const ProfilePoint& point : table->points) EXPECT_LT(point.seconds, 0.1);
}

TEST_F(VerifyProfileTest, ReportsProgress) {
  std::vector<int> seen;
  int planned = 0;
  options_.progress = [&](int done, int total) {
    seen.push_back(done);
    planned = total;
  };
  ASSERT_TRUE(MeasureProfile(verifier_, clock_, options_).ok());
  EXPECT_EQ(planned, 5 * 3 * 4);  // Row counts × contexts × (repetitions + warm-up).
  ASSERT_EQ(static_cast<int>(seen.size()), planned);
  EXPECT_EQ(seen.back(), planned);
  EXPECT_EQ(verifier_.verified, planned);
}

TEST_F(VerifyProfileTest, StopsAfterTheRoundThatExceedsTheTimeLimit) {
  // A round has 15 verifies of 1.4 to 3.4 ms, so the third round exceeds the limit.
  options_.repetitions = 1000;
  options_.time_limit = absl::Milliseconds(90);
  ASSERT_TRUE(MeasureProfile(verifier_, clock_, options_).ok());
  EXPECT_EQ(verifier_.verified, 5 * 3 * 3);
}

TEST_F(VerifyProfileTest, MeasuresLongerContextsAtTheSharedRowCountsAndInterpolatesTheRest) {
  options_.shared_row_counts = {4};
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(verifier_.verified, (5 + 3 + 3) * 4);  // 1, 4 and 16 rows at the longer contexts.
  ASSERT_EQ(table->points.size(), 15u);
  for (const ProfilePoint& point : table->points) {
    const double expected =
        absl::ToDoubleSeconds(TimedVerifier::TrueTime(point.rows, point.context));
    EXPECT_NEAR(point.seconds, expected, 60e-6) << point.rows << " rows, context " << point.context;
    EXPECT_NEAR(point.round_trip_seconds - point.seconds, 300e-6, 1e-9);
  }
}

TEST_F(VerifyProfileTest, RecordsTheExpertsThatTheCallsTouch) {
  EXPECT_FALSE(MeasureProfile(verifier_, clock_, options_)->has_experts());
  verifier_.experts_per_row = 1.5;
  options_.session = 10;
  options_.shared_row_counts = {1, 16};
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->has_experts());
  for (const ProfilePoint& point : table->points) {
    EXPECT_NEAR(point.experts, 1.5 * point.rows, 1e-9);
  }
}

TEST_F(VerifyProfileTest, SlowPointsGetFewerRepetitions) {
  verifier_.slowness = 6;  // 7 to 19 ms.
  options_.repetitions = 5;
  ASSERT_TRUE(MeasureProfile(verifier_, clock_, options_).ok());
  std::map<int, int> times;
  for (const DraftTree& tree : verifier_.trees) ++times[tree.rows()];
  EXPECT_EQ(times[1], 3 * (1 + 3));  // Contexts × (warm-up + repetitions).
  EXPECT_EQ(times[16], 3 * (1 + 2));
}

TEST_F(VerifyProfileTest, WarmUpBeyondTheTimeLimitReturnsTheMeasuredPoints) {
  verifier_.slowness = 1000;  // 1.1 s or more per verify.
  options_.shared_row_counts = {4};
  options_.time_limit = absl::Seconds(8);
  absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  // The points of the first context took 1.1, 1.4, 2.6, 1.2 and 1.8 s. The next did not start.
  EXPECT_EQ(verifier_.verified, 5);
  EXPECT_EQ(table->points.size(), 5u);
  options_.time_limit = absl::Seconds(5);
  options_.session = 100;
  table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  std::vector<int> rows;
  for (const ProfilePoint& point : table->points) rows.push_back(point.rows);
  EXPECT_THAT(rows, ElementsAre(1, 4, 16));
  options_.time_limit = absl::Nanoseconds(1);
  options_.session = 200;
  table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->points.size(), 1u);
}

TEST_F(VerifyProfileTest, TimeLimitZeroMeasuresEveryPointOnce) {
  options_.time_limit = absl::ZeroDuration();
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok());
  EXPECT_EQ(verifier_.verified, 5 * 3);
  for (const ProfilePoint& point : table->points) EXPECT_GT(point.seconds, 0);
}

TEST_F(VerifyProfileTest, AFailedVerifyIsReportedWithItsPointAndLeavesNoSequenceOpen) {
  verifier_.fail_at = 7;
  const absl::Status status = MeasureProfile(verifier_, clock_, options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("profile at 2 rows, context 256: gone"));
  EXPECT_EQ(verifier_.live(), 0);
}

TEST_F(VerifyProfileTest, AFailedSequenceIsAnError) {
  verifier_.refuse_at = 3;
  EXPECT_EQ(MeasureProfile(verifier_, clock_, options_).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(verifier_.live(), 0);
}

TEST_F(VerifyProfileTest, EmptyTraceIsAnError) {
  verifier_.silent = true;
  EXPECT_THAT(MeasureProfile(verifier_, clock_, options_).status().message(),
              HasSubstr("timing trace is empty"));
}

TEST_F(VerifyProfileTest, ProfilingNothingIsAnError) {
  options_.row_counts = {0, -3};
  EXPECT_EQ(MeasureProfile(verifier_, clock_, options_).status().code(),
            absl::StatusCode::kInvalidArgument);
  options_ = ProfileOptions();
  verifier_.info.max_context = 3;
  EXPECT_EQ(MeasureProfile(verifier_, clock_, options_).status().code(),
            absl::StatusCode::kInvalidArgument);
  verifier_.info.max_context = 512;
  options_.repetitions = 0;
  EXPECT_EQ(MeasureProfile(verifier_, clock_, options_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(VerifyProfileTest, ATinyContextLimitLowersTheRowCounts) {
  verifier_.info.max_context = 16;
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->max_rows(), 8);
  EXPECT_EQ(table->points.front().context, 4);
}

TEST_F(VerifyProfileTest, AllSequencesTogetherFitIntoTheKvCache) {
  verifier_.info.page_tokens = 16;
  verifier_.info.kv_tokens = 10 * 16;  // 5 pages for each of two contexts.
  options_.contexts = {16, 400};
  const auto table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  const int longest = *std::max_element(verifier_.contexts.begin(), verifier_.contexts.end());
  EXPECT_GT(longest, 16 + 8);
  EXPECT_LE(longest + verifier_.info.max_rows, 5 * 16);
}

TEST_F(VerifyProfileTest, AFileReplacesTheMeasurement) {
  const testing::TempFolder folder;
  verifier_.info.max_rows = 1;
  options_.file = folder.File("profile.json");
  const auto measured = MeasureProfileWithBar(verifier_, "profiling", options_);
  ASSERT_TRUE(measured.ok()) << measured.status();
  const int verified = verifier_.verified;
  ASSERT_GT(verified, 0);
  const auto read = MeasureProfileWithBar(verifier_, "profiling", options_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(verifier_.verified, verified);
  ASSERT_EQ(read->points.size(), measured->points.size());
  EXPECT_EQ(read->points[0].seconds, measured->points[0].seconds);
  verifier_.info.device = "another box";
  EXPECT_TRUE(
      absl::IsFailedPrecondition(MeasureProfileWithBar(verifier_, "profiling", options_).status()));
}

TEST_F(VerifyProfileTest, ADiskThatTakesNoFileDoesNotStopTheStart) {
  const testing::TempFolder folder;
  verifier_.info.max_rows = 1;
  options_.file = folder.File("none/profile.json");
  const auto measured = MeasureProfileWithBar(verifier_, "profiling", options_);
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_FALSE(measured->points.empty());
}

TEST(RandomTreeTest, BranchesWithThreeOrMoreRows) {
  for (int rows = 1; rows <= 64; ++rows) {
    const DraftTree tree = RandomTree(rows, 64, rows);
    EXPECT_EQ(tree.rows(), rows);
    EXPECT_TRUE(tree.Validate(64).ok());
    EXPECT_EQ(tree.IsChain(), rows <= 2);
  }
}

TEST(RandomTreeTest, InvalidRowCountsFailACheck) {
  EXPECT_DEATH((void)RandomTree(11, 10, 1),
               "rows is 11; it must be from 1 to the vocabulary size, 10");
  EXPECT_DEATH((void)RandomTree(0, 10, 1), "rows is 0");
}

TEST(LatencyProfileTest, MedianIsTheLowerMiddleValue) {
  EXPECT_EQ(Median({}), 0);
  EXPECT_EQ(Median({3}), 3);
  EXPECT_EQ(Median({9, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 9, 2}), 2);
}

TEST(LatencyProfileTest, FillGridAddsTheExtraTimeOfLongerContexts) {
  const LatencyProfile full = FillGrid({{{1, 16, 1.0, 1.5},
                                         {2, 16, 2.0, 2.5},
                                         {4, 16, 3.0, 3.5},
                                         {8, 16, 9.0, 9.5},
                                         {2, 64, 2.2, 2.9},
                                         {8, 64, 9.8, 9.9},
                                         {4, 99, 2.0, 2.1}}});
  std::vector<double> seconds, round_trips;
  for (const ProfilePoint& point : full.points) {
    seconds.push_back(point.seconds);
    round_trips.push_back(point.round_trip_seconds);
  }
  using ::testing::DoubleNear;
  using ::testing::Pointwise;
  // The second context adds 0.2 at 2 rows and 0.8 at 8 rows. The last context is faster at 4 rows,
  // so it adds nothing.
  EXPECT_THAT(seconds, Pointwise(DoubleNear(1e-9), {1.0, 2.0, 3.0, 9.0,  //
                                                    1.2, 2.2, 3.4, 9.8,  //
                                                    1.0, 2.0, 2.0, 9.0}));
  EXPECT_THAT(round_trips, Pointwise(DoubleNear(1e-9), {1.5, 2.5, 3.5, 9.5,  //
                                                        1.7, 2.9, 3.9, 9.9,  //
                                                        1.5, 2.5, 2.1, 9.5}));
  EXPECT_TRUE(FillGrid(LatencyProfile()).points.empty());
}

TEST(LatencyProfileTest, OverheadIsNeverNegative) {
  const LatencyProfile table = {{{1, 0, 2.0, 1.0}}};
  EXPECT_EQ(table.OverheadSeconds(), 0);
  EXPECT_EQ(LatencyProfile().OverheadSeconds(), 0);
  EXPECT_EQ(LatencyProfile().max_rows(), 0);
}

}  // namespace
}  // namespace bastion
