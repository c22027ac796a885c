#include "common/base/check.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(CheckTest, ATrueConditionPrintsNothingAndSkipsTheMessage) {
  int evaluated = 0;
  ::testing::internal::CaptureStderr();
  CHECK(true) << ++evaluated;
  CHECK_EQ(1, 1) << ++evaluated;
  CHECK_LE(1, 1) << ++evaluated;
  CHECK_LT(0, 1) << ++evaluated;
  CHECK_GE(1, 1) << ++evaluated;
  CHECK_GT(1, 0) << ++evaluated;
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(evaluated, 0);
}

TEST(CheckTest, AFalseConditionAbortsAndPrintsTheConditionAndTheMessage) {
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
  int evaluated = 0;
  const auto is_false = [&] {
    ++evaluated;
    return false;
  };
#ifdef NDEBUG
  DCHECK(is_false());
  EXPECT_EQ(evaluated, 0) << "a release build does not evaluate the condition";
#else
  EXPECT_DEATH(DCHECK(is_false()), "CHECK failed");
  EXPECT_EQ(evaluated, 0) << "only the child process evaluated it";
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
