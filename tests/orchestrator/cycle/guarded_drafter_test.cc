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

  absl::Status Expand() {
    Frontier frontier;
    frontier.sequence = kSequence;
    return guarded_.Expand({frontier}).status();
  }

  FakeVerifier verifier_;
  FakeDrafter inner_{&verifier_};
  testing::ManualClock clock_;
  GuardedDrafter guarded_{&inner_, kToyVocabulary, &clock_};
};

TEST_F(GuardedDrafterTest, CallsInfoOnceBeforeTheFirstDraft) {
  EXPECT_TRUE(Expand().ok());
  EXPECT_TRUE(Expand().ok());
  EXPECT_EQ(inner_.info_calls, 1);
  EXPECT_EQ(inner_.frontiers.size(), 2u);
}

TEST_F(GuardedDrafterTest, RefusesADrafterWithAnotherVocabulary) {
  inner_.vocabulary = kToyVocabulary + 1;
  const absl::Status status = Expand();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("start the drafter that was trained for this target"));
  EXPECT_TRUE(inner_.frontiers.empty());
  EXPECT_TRUE(absl::IsFailedPrecondition(guarded_.Info().status()));
}

TEST_F(GuardedDrafterTest, AFailureStartsAPause) {
  ASSERT_TRUE(Expand().ok());
  inner_.call_error = absl::UnavailableError("gone");
  EXPECT_TRUE(absl::IsUnavailable(Expand()));
  inner_.call_error.reset();
  clock_.Advance(GuardedDrafter::kFirstPause - absl::Milliseconds(1));
  EXPECT_THAT(Expand().message(), HasSubstr("gone"));  // The error of the failed call.
  EXPECT_EQ(inner_.frontiers.size(), 2u);
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(Expand().ok());
  EXPECT_EQ(inner_.info_calls, 2);  // Checked again, because it may be another drafter now.
}

TEST_F(GuardedDrafterTest, EachFailureDoublesThePauseUpToTheLongest) {
  inner_.expand_error = absl::DeadlineExceededError("late");
  absl::Duration pause = GuardedDrafter::kFirstPause;
  for (size_t failure = 1; failure <= 9; ++failure) {
    EXPECT_FALSE(Expand().ok());
    EXPECT_EQ(inner_.frontiers.size(), failure);
    clock_.Advance(pause - absl::Milliseconds(1));
    EXPECT_FALSE(Expand().ok());
    EXPECT_EQ(inner_.frontiers.size(), failure) << "called during the pause of " << pause;
    clock_.Advance(absl::Milliseconds(1));
    pause = std::min(2 * pause, GuardedDrafter::kLongestPause);
  }
  EXPECT_EQ(pause, GuardedDrafter::kLongestPause);
}

TEST_F(GuardedDrafterTest, ASuccessResetsThePause) {
  inner_.expand_error = absl::UnavailableError("gone");
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(Expand().ok());
    clock_.Advance(GuardedDrafter::kLongestPause);
  }
  inner_.expand_error.reset();
  ASSERT_TRUE(Expand().ok());
  inner_.call_error = absl::UnavailableError("gone");
  EXPECT_FALSE(Expand().ok());
  inner_.call_error.reset();
  clock_.Advance(GuardedDrafter::kFirstPause);
  EXPECT_TRUE(Expand().ok());
}

TEST_F(GuardedDrafterTest, ADrafterThatReturnsIsUsedWithoutALongPause) {
  ASSERT_TRUE(Expand().ok());
  inner_.call_error = absl::UnavailableError("gone");
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(Expand().ok());
    clock_.Advance(GuardedDrafter::kFirstPause);
  }
  EXPECT_EQ(inner_.frontiers.size(), 2u) << "a drafter that does not answer must not be called";
  inner_.call_error.reset();
  EXPECT_TRUE(Expand().ok());
}

// Drafts nothing for lack of features: one frontier, or the first of several.
class LackingDrafter final : public Drafter {
 public:
  explicit LackingDrafter(Drafter* inner) : inner_(inner) {}
  absl::StatusOr<DrafterInfo> Info() override { return inner_->Info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    ++calls;
    if (error.ok()) return inner_->Expand(frontiers);
    DraftResult result;
    result.drafts.resize(frontiers.size(), {{Marginals()}, absl::OkStatus()});
    result.drafts[0].status = error;
    return result;
  }
  void Close(SequenceId) override {}

  absl::Status error = absl::DeadlineExceededError("the features have not arrived yet");
  int calls = 0;

 private:
  Drafter* const inner_;
};

class LackOfFeaturesTest : public GuardedDrafterTest {
 protected:
  absl::Status ExpandTwo() {
    Frontier first, second;
    first.sequence = kSequence;
    second.sequence = {2, 0};
    return guarded_lacking_.Expand({first, second}).status();
  }
  absl::Status ExpandOne() {
    Frontier frontier;
    frontier.sequence = kSequence;
    return guarded_lacking_.Expand({frontier}).status();
  }
  // Calls that lack features, until a pause begins.
  void AwaitPause() {
    for (int i = 0; i < GuardedDrafter::kEmptyCalls; ++i) ASSERT_TRUE(ExpandOne().ok());
    ASSERT_TRUE(absl::IsDeadlineExceeded(ExpandOne()));
    ASSERT_EQ(lacking_.calls, GuardedDrafter::kEmptyCalls);
  }

  LackingDrafter lacking_{&inner_};
  GuardedDrafter guarded_lacking_{&lacking_, kToyVocabulary, &clock_};
};

TEST_F(LackOfFeaturesTest, SeveralCallsInARowStartAPauseThatGrows) {
  AwaitPause();
  absl::Duration pause = GuardedDrafter::kFirstPause;
  for (int further = 1; further < 7; ++further) {
    clock_.Advance(pause - absl::Milliseconds(1));
    EXPECT_FALSE(ExpandOne().ok());
    clock_.Advance(absl::Milliseconds(1));
    EXPECT_TRUE(ExpandOne().ok());
    EXPECT_EQ(lacking_.calls, GuardedDrafter::kEmptyCalls + further);
    pause = std::min(2 * pause, GuardedDrafter::kLongestEmptyPause);
  }
}

TEST_F(LackOfFeaturesTest, ADraftEndsTheRow) {
  AwaitPause();
  clock_.Advance(GuardedDrafter::kFirstPause);
  const absl::Status error = std::exchange(lacking_.error, absl::OkStatus());
  ASSERT_TRUE(ExpandOne().ok());
  lacking_.error = error;
  lacking_.calls = 0;
  AwaitPause();
}

TEST_F(LackOfFeaturesTest, ACallWithOneDraftIsNoFailure) {
  for (int i = 0; i < 3 * GuardedDrafter::kEmptyCalls; ++i) EXPECT_TRUE(ExpandTwo().ok());
}

TEST_F(LackOfFeaturesTest, ARefusalOfTheSequenceIsNoFailure) {
  lacking_.error = absl::ResourceExhaustedError("64 sequences are already open");
  for (int i = 0; i < 3 * GuardedDrafter::kEmptyCalls; ++i) EXPECT_TRUE(ExpandOne().ok());
}

TEST_F(GuardedDrafterTest, CloseReachesTheDrafterDuringAPause) {
  ASSERT_TRUE(Expand().ok());
  inner_.call_error = absl::DeadlineExceededError("late");
  EXPECT_FALSE(Expand().ok());
  guarded_.Close(kSequence);  // A drafter that is only late would otherwise keep the sequence.
  EXPECT_THAT(inner_.closed, ElementsAre(kSequence));
}

}  // namespace
}  // namespace bastion
