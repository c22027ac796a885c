#include "orchestrator/schedule/readiness.h"

#include <optional>

#include "gtest/gtest.h"

namespace bastion {
namespace {

class ReadinessTest : public ::testing::Test {
 protected:
  void Show() {
    readiness_.ShowIn([this](bool serving) { shown_ = serving; });
  }

  Readiness readiness_;
  std::optional<bool> shown_;
};

TEST_F(ReadinessTest, FollowsTheVerifier) {
  Show();
  EXPECT_EQ(shown_, false);
  readiness_.SetReady(true);
  EXPECT_EQ(shown_, true);
  readiness_.SetReady(false);
  EXPECT_EQ(shown_, false);
}

TEST_F(ReadinessTest, ChangesBeforeItIsShownCount) {
  readiness_.SetReady(true);
  EXPECT_EQ(shown_, std::nullopt);
  Show();
  EXPECT_EQ(shown_, true);
}

// A verifier that returns while the orchestrator drains must not attract requests.
TEST_F(ReadinessTest, ADrainingServiceIsNeverReady) {
  Show();
  readiness_.SetReady(true);
  readiness_.Drain();
  EXPECT_EQ(shown_, false);
  readiness_.SetReady(false);
  readiness_.SetReady(true);
  EXPECT_EQ(shown_, false);
}

}  // namespace
}  // namespace bastion
