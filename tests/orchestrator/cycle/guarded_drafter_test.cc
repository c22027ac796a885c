#include "orchestrator/cycle/guarded_drafter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_stages.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

using ::bastion::testing::FakeDrafter;
using ::bastion::testing::FakeVerifier;
using ::bastion::testing::kToyVocabulary;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SequenceId kSequence = {1, 0};

class GuardedDrafterTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(verifier_.Open(kSequence, {}).ok()); }

  absl::Status Ask() {
    Frontier frontier;
    frontier.sequence = kSequence;
    return guarded_.Expand({frontier}).status();
  }

  FakeVerifier verifier_;
  FakeDrafter inner_{&verifier_};
  testing::ManualClock clock_;
  GuardedDrafter guarded_{&inner_, kToyVocabulary, &clock_};
};

TEST_F(GuardedDrafterTest, AsksForTheFactsOnceAndThenOnlyDrafts) {
  EXPECT_TRUE(Ask().ok());
  EXPECT_TRUE(Ask().ok());
  EXPECT_EQ(inner_.info_calls, 1);
  EXPECT_EQ(inner_.asked.size(), 2u);
}

TEST_F(GuardedDrafterTest, AnotherVocabularyIsRefused) {
  inner_.vocabulary = kToyVocabulary + 1;
  const absl::Status status = Ask();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("another target"));
  EXPECT_TRUE(inner_.asked.empty());
  EXPECT_TRUE(absl::IsFailedPrecondition(guarded_.Info().status()));
}

TEST_F(GuardedDrafterTest, AfterAFailureItIsLeftAloneForAWhile) {
  ASSERT_TRUE(Ask().ok());
  inner_.call_fails = absl::UnavailableError("gone");
  EXPECT_TRUE(absl::IsUnavailable(Ask()));
  inner_.call_fails.reset();
  clock_.Advance(GuardedDrafter::kFirstPause - absl::Milliseconds(1));
  EXPECT_THAT(Ask().message(), HasSubstr("gone"));  // The reason is remembered.
  EXPECT_EQ(inner_.asked.size(), 2u);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Ask().ok());
  EXPECT_EQ(inner_.info_calls, 2);  // It may be another drafter by now.
}

TEST_F(GuardedDrafterTest, EveryFailureDoublesThePauseUpToTheLongest) {
  inner_.call_fails = absl::DeadlineExceededError("late");
  absl::Duration pause = GuardedDrafter::kFirstPause;
  for (int failure = 1; failure <= 8; ++failure) {
    EXPECT_FALSE(Ask().ok());
    EXPECT_EQ(inner_.info_calls, failure);
    clock_.Advance(pause - absl::Milliseconds(1));
    EXPECT_FALSE(Ask().ok());
    EXPECT_EQ(inner_.info_calls, failure) << "asked before the pause of " << pause << " was over";
    clock_.Advance(absl::Milliseconds(1));
    pause = std::min(2 * pause, GuardedDrafter::kLongestPause);
  }
  EXPECT_EQ(pause, GuardedDrafter::kLongestPause);
}

TEST_F(GuardedDrafterTest, ASuccessShortensThePauseAgain) {
  inner_.call_fails = absl::UnavailableError("gone");
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(Ask().ok());
    clock_.Advance(GuardedDrafter::kLongestPause);
  }
  inner_.call_fails.reset();
  ASSERT_TRUE(Ask().ok());
  inner_.call_fails = absl::UnavailableError("gone");
  EXPECT_FALSE(Ask().ok());
  inner_.call_fails.reset();
  clock_.Advance(GuardedDrafter::kFirstPause);
  EXPECT_TRUE(Ask().ok());
}

TEST_F(GuardedDrafterTest, CloseReachesTheDrafterAlsoWhileItIsLeftAlone) {
  ASSERT_TRUE(Ask().ok());
  inner_.call_fails = absl::DeadlineExceededError("late");
  EXPECT_FALSE(Ask().ok());
  guarded_.Close(kSequence);  // Late is not gone: it would keep the sequence for ever.
  EXPECT_THAT(inner_.closed, ElementsAre(kSequence));
}

}  // namespace
}  // namespace bastion
