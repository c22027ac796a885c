#include "common/base/guarded.h"

#include <stdexcept>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(RunGuardedTest, ExceptionsAreReportedAndDoNotLeave) {
  EXPECT_TRUE(RunGuarded("work", [] {}));
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(RunGuarded("the work", [] { throw std::runtime_error("a bug"); }));
  EXPECT_FALSE(RunGuarded("more work", [] { throw 1; }));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("the work failed: a bug"), std::string::npos) << log;
  EXPECT_NE(log.find("more work failed"), std::string::npos) << log;
}

}  // namespace
}  // namespace bastion
