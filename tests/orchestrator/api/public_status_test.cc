#include "orchestrator/api/public_status.h"

#include <stdexcept>

#include "gtest/gtest.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

TEST(PublicStatusTest, AClientOfAnUnavailableServerLearnsWhenToTryAgain) {
  const absl::Status lost = ForClient(absl::UnavailableError("the model is not available"));
  const absl::Status shown = PublicStatus(lost, "req-7");
  EXPECT_EQ(shown.message(), lost.message());
  EXPECT_EQ(RetryDelay(shown), absl::Seconds(1));
}

TEST(PublicStatusTest, ADelayThatAnErrorAlreadyHasStays) {
  const absl::Status busy =
      WithRetryDelay(ForClient(absl::UnavailableError("busy")), absl::Seconds(7));
  EXPECT_EQ(RetryDelay(PublicStatus(busy, "req-7")), absl::Seconds(7));
}

TEST(PublicStatusTest, AnErrorInTheRequestIsNoReasonToTryAgain) {
  const absl::Status bad = ForClient(absl::InvalidArgumentError("n: is 0"));
  EXPECT_EQ(RetryDelay(PublicStatus(bad, "req-7")), std::nullopt);
}

TEST(PublicStatusTest, AnExceptionIsAnErrorThatTheClientMayRetry) {
  const absl::Status shown =
      PublicStatusOf([]() -> absl::Status { throw std::runtime_error("secret"); }, "req-7");
  EXPECT_TRUE(absl::IsUnavailable(shown)) << shown;
  EXPECT_EQ(shown.message().find("secret"), std::string::npos) << shown;
  EXPECT_NE(shown.message().find("req-7"), std::string::npos) << shown;
  EXPECT_EQ(RetryDelay(shown), absl::Seconds(1));
}

}  // namespace
}  // namespace bastion
