#include "common/base/check.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(CheckTest, ATrueConditionDoesNotAbort) {
  CHECK(true) << "never evaluated";
  CHECK_EQ(1, 1);
  CHECK_LE(1, 1);
  CHECK_LT(0, 1);
  CHECK_GE(1, 1);
  CHECK_GT(1, 0);
  SUCCEED();
}

TEST(CheckTest, AFalseConditionAbortsWithTheConditionAndTheMessage) {
  EXPECT_DEATH(CHECK(1 > 2) << "arithmetic", "F.*check_test.cc.*CHECK failed: 1 > 2 arithmetic");
}

TEST(CheckTest, AFailedComparisonReportsBothValues) {
  EXPECT_DEATH(CHECK_EQ(1, 2), "1 vs 2");
  EXPECT_DEATH(CHECK_LE(2, 1), "2 vs 1");
  EXPECT_DEATH(CHECK_LT(1, 1), "1 vs 1");
  EXPECT_DEATH(CHECK_GE(1, 2), "1 vs 2");
  EXPECT_DEATH(CHECK_GT(1, 1), "1 vs 1");
}

TEST(CheckTest, DcheckAbortsOnlyInDebugBuilds) {
#ifdef NDEBUG
  DCHECK(false);
  SUCCEED();
#else
  EXPECT_DEATH(DCHECK(false), "CHECK failed");
#endif
}

TEST(CheckTest, DoesNotCaptureTheElseOfAnOuterIf) {
  bool other = false;
  if (false)
    CHECK(true);
  else
    other = true;
  EXPECT_TRUE(other);
}

TEST(LogTest, WritesOneLineWithSeverityAndSourceLocation) {
  ::testing::internal::CaptureStderr();
  LOG(WARNING) << "rows " << 3;
  const std::string line = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.front(), 'W');
  EXPECT_NE(line.find("check_test.cc:"), std::string::npos);
  EXPECT_NE(line.find("] rows 3\n"), std::string::npos);
}

}  // namespace
}  // namespace bastion
