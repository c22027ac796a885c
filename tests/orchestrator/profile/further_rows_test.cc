// Tests the row counts that profile measures only where rows are cheap.
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/profile/profile_fixture.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;

// The row counts at one context, without interpolated ones.
std::vector<int> MeasuredRows(const LatencyProfile& table, int context) {
  std::vector<int> rows;
  for (const ProfilePoint& point : table.points) {
    if (point.context == context && !point.interpolated) rows.push_back(point.rows);
  }
  return rows;
}

class FurtherRowsTest : public VerifyProfileTest {
 protected:
  FurtherRowsTest() {
    verifier_.info.max_rows = 2000;
    verifier_.info.dims.vocabulary = 4000;
    verifier_.info.max_context = 1 << 14;
    options_.shared_row_counts = {1, 128};
  }
};

TEST_F(FurtherRowsTest, CheapRowsAreMeasuredUpToTreesOf1024Nodes) {
  verifier_.row_microseconds = 5;  // 1025 rows take 6.1 times as long as one.
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(MeasuredRows(*table, 16),
              ElementsAre(1, 2, 4, 8, 16, 128, 129, 192, 257, 384, 513, 768, 1025));
  EXPECT_THAT(MeasuredRows(*table, 256), ElementsAre(1, 128, 1025));
  EXPECT_THAT(MeasuredRows(*table, 1024), ElementsAre(1, 128, 1025));
  EXPECT_EQ(table->points.size(), 3u * 13);
  EXPECT_EQ(verifier_.live(), 0);
}

TEST_F(FurtherRowsTest, MeasuringStopsAtRowCountsThatCannotPay) {
  verifier_.row_microseconds = 20;  // 257 rows take 5.9 times as long as one, 384 rows 8.4 times.
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->max_rows(), 384);
  EXPECT_THAT(MeasuredRows(*table, 1024), ElementsAre(1, 128, 384));
  verifier_.row_microseconds = 100;  // 128 rows take 12 times as long as one.
  options_.session = 100;
  EXPECT_EQ(MeasureProfile(verifier_, clock_, options_)->max_rows(), 128);
}

TEST_F(FurtherRowsTest, TheLimitOfTheVerifierIsTheLastRowCount) {
  verifier_.row_microseconds = 1;
  verifier_.info.max_rows = 512;
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(MeasuredRows(*table, 16), ElementsAre(1, 2, 4, 8, 16, 128, 129, 192, 257, 384, 512));
}

TEST_F(FurtherRowsTest, NothingFurtherIsMeasuredWithoutTime) {
  verifier_.row_microseconds = 5;
  // The first round over six row counts at the first context, and two at the others, takes 17 ms.
  options_.time_limit = absl::Milliseconds(40);
  const absl::StatusOr<LatencyProfile> table = MeasureProfile(verifier_, clock_, options_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->max_rows(), 128);
  EXPECT_GT(verifier_.verified, 11) << "the points are repeated";
}

TEST_F(FurtherRowsTest, ProgressCountsFurtherPoints) {
  verifier_.row_microseconds = 5;
  int last_done = 0, last_total = 0;
  options_.progress = [&](int done, int total) {
    EXPECT_EQ(done, last_done + 1);
    EXPECT_GE(total, last_total);
    last_done = done;
    last_total = total;
  };
  ASSERT_TRUE(MeasureProfile(verifier_, clock_, options_).ok());
  EXPECT_EQ(last_done, last_total);
  EXPECT_EQ(last_total, (13 + 3 + 3) * (options_.repetitions + 1));
}

}  // namespace
}  // namespace bastion
