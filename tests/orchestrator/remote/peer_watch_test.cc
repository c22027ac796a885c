#include "orchestrator/remote/peer_watch.h"

#include <new>

#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Milliseconds(50);

class PeerWatchTest : public ::testing::Test {
 protected:
  // What the peer answers.
  absl::StatusOr<EngineActivity> Answer(absl::Duration timeout) {
    const auto released = [this] { return !silent_; };
    MutexLock lock(&mutex_);
    ++questions_;
    if (!mutex_.AwaitWithTimeout(released, timeout)) return absl::DeadlineExceededError("silent");
    if (throws_) throw std::bad_alloc();
    if (works_) ++activity_.progress;
    if (!error_.ok()) return error_;
    return activity_;
  }
  template <typename Change>
  void Set(Change change) {
    MutexLock lock(&mutex_);
    change();
  }
  bool AwaitStatus(bool ok, absl::Duration limit = absl::Seconds(10)) {
    const absl::Duration end = Clock::Real().Now() + limit;
    while (Clock::Real().Now() < end) {
      if (watch_.status().ok() == ok) return true;
      absl::SleepFor(absl::Milliseconds(1));
    }
    return false;
  }
  int questions() {
    MutexLock lock(&mutex_);
    return questions_;
  }

  Mutex mutex_;
  EngineActivity activity_ = {.instance = 7};
  bool silent_ = false, works_ = false, throws_ = false;
  absl::Status error_;
  int questions_ = 0;
  PeerWatch watch_{"the peer", kTimeout, [this](absl::Duration timeout) { return Answer(timeout); },
                   /*unknown_call=*/absl::ZeroDuration()};
};

TEST_F(PeerWatchTest, AsksNothingBeforeTheFirstAwait) {
  absl::SleepFor(3 * kTimeout);
  EXPECT_TRUE(watch_.status().ok());
  EXPECT_EQ(questions(), 0);
}

TEST_F(PeerWatchTest, APeerThatFallsSilentIsLostAndReturns) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  Set([&] { silent_ = true; });
  ASSERT_TRUE(AwaitStatus(false));
  EXPECT_TRUE(absl::IsUnavailable(watch_.status())) << watch_.status();
  Set([&] { silent_ = false; });
  EXPECT_TRUE(AwaitStatus(true));
}

TEST_F(PeerWatchTest, APeerThatCannotBeReachedIsLostAtOnce) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  Set([&] { error_ = absl::UnavailableError("refused"); });
  EXPECT_TRUE(AwaitStatus(false));
}

TEST_F(PeerWatchTest, ABusyPeerThatRefusesAQuestionIsAlive) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  const int before = questions();
  Set([&] { error_ = absl::ResourceExhaustedError("all threads are busy"); });
  while (questions() < before + 5) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_TRUE(watch_.status().ok()) << watch_.status();
}

TEST_F(PeerWatchTest, AQuestionThatThrowsDoesNotEndTheProcess) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  const int before = questions();
  Set([&] { throws_ = true; });
  while (questions() < before + 2) absl::SleepFor(absl::Milliseconds(1));
  Set([&] { throws_ = false; });
  EXPECT_TRUE(watch_.status().ok()) << watch_.status();
}

TEST_F(PeerWatchTest, TheFirstErrorIsReported) {
  Set([&] { error_ = absl::FailedPreconditionError("another version"); });
  EXPECT_TRUE(absl::IsFailedPrecondition(watch_.AwaitAnswer()));
}

TEST_F(PeerWatchTest, ARestartedPeerStaysLostUntilRenew) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  Set([&] { activity_.instance = 8; });
  ASSERT_TRUE(AwaitStatus(false));
  EXPECT_THAT(std::string(watch_.status().message()), HasSubstr("restarted"));
  absl::SleepFor(2 * kTimeout);
  EXPECT_FALSE(watch_.status().ok());
  watch_.RenewIfLost();
  EXPECT_TRUE(watch_.AwaitAnswer().ok());
}

TEST_F(PeerWatchTest, AnEngineWithoutProgressIsLost) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  Set([&] { activity_.busy = true; });
  ASSERT_TRUE(AwaitStatus(false));
  EXPECT_THAT(std::string(watch_.status().message()), HasSubstr("hangs"));
}

TEST_F(PeerWatchTest, AnEngineThatWorksIsNotLostHoweverLongItTakes) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  Set([&] { activity_.busy = works_ = true; });
  EXPECT_FALSE(AwaitStatus(false, 6 * kTimeout)) << watch_.status();
}

TEST_F(PeerWatchTest, ALongCallMayBeWithoutProgressForAMultipleOfItsPrediction) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  watch_.Expect(2 * kTimeout);
  Set([&] { activity_.busy = true; });
  EXPECT_FALSE(AwaitStatus(false, 4 * kTimeout)) << watch_.status();
  EXPECT_TRUE(AwaitStatus(false));
}

TEST_F(PeerWatchTest, ACallThatAnIdleEngineDoesNotAnswerIsLostUntilRenew) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  {
    const PeerWatch::Call call(&watch_, 0);
    ASSERT_TRUE(AwaitStatus(false));
    EXPECT_THAT(std::string(watch_.status().message()), HasSubstr("does not answer a call"));
  }
  absl::SleepFor(2 * kTimeout);
  EXPECT_FALSE(watch_.status().ok());
  watch_.Renew();
  EXPECT_TRUE(watch_.AwaitAnswer().ok());
  EXPECT_FALSE(AwaitStatus(false, 3 * kTimeout)) << watch_.status();
}

TEST_F(PeerWatchTest, ACallOfAnEngineThatWorksIsNotLost) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  Set([&] { activity_.busy = works_ = true; });
  const PeerWatch::Call call(&watch_, 0);
  EXPECT_FALSE(AwaitStatus(false, 6 * kTimeout)) << watch_.status();
  Set([&] { activity_.busy = works_ = false; });
  EXPECT_TRUE(AwaitStatus(false)) << "the reply was lost";
}

TEST_F(PeerWatchTest, ShortCallsAreNotLost) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  const int until = questions() + 3 * PeerWatch::kQuestionsPerTimeout;
  while (questions() < until) {
    const PeerWatch::Call call(&watch_, 0);
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(watch_.status().ok()) << watch_.status();
}

TEST_F(PeerWatchTest, ALargeRequestMayBeOnItsWayForLonger) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  const PeerWatch::Call call(&watch_, static_cast<size_t>(PeerWatch::kSlowestNetwork / 2));
  EXPECT_FALSE(AwaitStatus(false, 6 * kTimeout)) << watch_.status();
  EXPECT_TRUE(AwaitStatus(false));
}

TEST_F(PeerWatchTest, APeerThatReportsNoActivityIsNotIdle) {
  Set([&] { activity_ = {}; });
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  const PeerWatch::Call call(&watch_, 0);
  EXPECT_FALSE(AwaitStatus(false, 6 * kTimeout)) << watch_.status();
}

TEST_F(PeerWatchTest, RenewWaitsForANewAnswer) {
  ASSERT_TRUE(watch_.AwaitAnswer().ok());
  Set([&] { silent_ = true; });
  watch_.Renew();
  EXPECT_TRUE(absl::IsUnavailable(watch_.status()));
  EXPECT_TRUE(absl::IsUnavailable(watch_.AwaitAnswer()));
  Set([&] { silent_ = false; });
  EXPECT_TRUE(AwaitStatus(true));
}

}  // namespace
}  // namespace bastion
