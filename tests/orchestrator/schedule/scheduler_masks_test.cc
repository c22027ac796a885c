// Tests requests whose constraints take long to find what may follow.
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/thread_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/cycle/answer_constraint.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using testing::Answer;
using ::testing::HasSubstr;
using testing::kToyVocabulary;
using testing::ReadAll;
using testing::SharedVerifier;
using testing::ToyText;

// Holds up constraints until the test opens it.
class Gate {
 public:
  void Open() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    open_ = true;
  }
  void Pass() ABSL_LOCKS_EXCLUDED(mutex_) {
    const auto is_open = [this] { return open_; };
    MutexLock lock(&mutex_);
    waits_ = true;
    EXPECT_TRUE(mutex_.AwaitWithTimeout(is_open, absl::Seconds(20)));
  }
  bool waits() ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return waits_;
  }

 private:
  Mutex mutex_;
  bool open_ = false, waits_ = false;
};

// Allows all tokens. Each mask needs `cost` of CPU time, or as much as it may take.
class SlowConstraint final : public TokenConstraint {
 public:
  SlowConstraint(absl::Duration cost, Gate* gate) : cost_(cost), gate_(gate) {}

  absl::StatusOr<std::unique_ptr<TokenConstraint>> Copy() const override {
    return std::make_unique<SlowConstraint>(*this);
  }
  absl::StatusOr<TokenSet> Allowed() override {
    if (cost_ > limit_) return absl::DeadlineExceededError("too slow");
    if (gate_ != nullptr) gate_->Pass();
    const absl::Duration began = ThreadCpuTime();
    while (spins && ThreadCpuTime() - began < cost_) {
    }
    TokenSet all(kToyVocabulary);
    for (TokenId token = 0; token < kToyVocabulary; ++token) all.Add(token);
    return all;
  }
  std::vector<TokenId> Forced() override { return {}; }
  absl::Status Push(TokenId) override { return absl::OkStatus(); }
  absl::Status Pop(int) override { return absl::OkStatus(); }
  bool complete() const override { return false; }
  void LimitTime(absl::Duration limit) override { limit_ = limit; }

  bool spins = false;

 private:
  absl::Duration cost_;
  absl::Duration limit_ = absl::InfiniteDuration();
  Gate* gate_;
};

class SchedulerMasksTest : public testing::SchedulerTest {
 protected:
  static std::shared_ptr<SlowConstraint> Slow(absl::Duration cost, Gate* gate = nullptr) {
    return std::make_shared<SlowConstraint>(cost, gate);
  }
  const std::vector<TokenId> prompt_ = Prompt(3);
};

TEST_F(SchedulerMasksTest, AnExpensiveMaskHoldsUpNoOtherRequest) {
  StartAndAwaitReady();
  Gate gate;
  const auto slow = Submit({.prompt = prompt_, .constraint = Slow(absl::Milliseconds(100), &gate)});
  ASSERT_TRUE(Await([&] { return gate.waits(); }));
  const Answer other = ReadAll(*Submit({.prompt = prompt_}));
  EXPECT_TRUE(other.status.ok()) << other.status;
  OutputDelta delta;
  EXPECT_EQ(slow->WaitForEvent(absl::ZeroDuration(), delta), RequestStream::Event::kTimeout);
  gate.Open();
  const Answer answer = ReadAll(*slow);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, ToyText(prompt_, {}, 20));
}

TEST_F(SchedulerMasksTest, ARequestWithExpensiveMasksDraftsNothing) {
  StartAndAwaitReady();
  const Answer answer = ReadAll(*Submit({.prompt = prompt_,
                                         .max_tokens = 6,
                                         .policy = "fixed:16",
                                         .constraint = Slow(absl::Milliseconds(6))}));
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.tokens, ToyText(prompt_, {}, 6));
  int trees = 0, rows = 0;
  for (const SharedVerifier::Call& call : verifier_.calls()) {
    trees += call.trees;
    rows += call.tree_rows;
  }
  EXPECT_GE(trees, 2);
  EXPECT_LE(rows, answer.end.completion_tokens + 16) << "only the first trees may have nodes";
}

TEST_F(SchedulerMasksTest, AHopelessConstraintEndsItsRequestAlone) {
  StartAndAwaitReady();
  const auto slow = Submit({.prompt = prompt_, .constraint = Slow(absl::Hours(1))});
  const auto other = Submit({.prompt = prompt_});
  const Answer answer = ReadAll(*slow);
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status)) << answer.status;
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("constraint: is too complex"));
  EXPECT_TRUE(ReadAll(*other).status.ok());
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(SchedulerMasksTest, ManySlowMasksEndTheirRequest) {
  StartAndAwaitReady();
  const auto slow = Slow(AnswerConstraint::kSlowMask + absl::Milliseconds(1));
  slow->spins = true;
  const Answer answer =
      ReadAll(*Submit({.prompt = prompt_, .max_tokens = 100, .constraint = slow}));
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status)) << answer.status;
  EXPECT_EQ(answer.tokens.size(), size_t{AnswerConstraint::kMaxSlowMasks - 1});
}

TEST_F(SchedulerMasksTest, ACanceledRequestLeavesWhileItsMaskIsBeingFound) {
  StartAndAwaitReady();
  Gate gate;
  const auto slow = Submit({.prompt = prompt_, .constraint = Slow(absl::Milliseconds(100), &gate)});
  ASSERT_TRUE(Await([&] { return gate.waits(); }));
  scheduler_->Cancel(*slow);
  EXPECT_TRUE(AwaitIdle());
  gate.Open();
  scheduler_ = nullptr;  // Ends the threads that use the gate.
}

}  // namespace
}  // namespace bastion
