#include "orchestrator/schedule/request_queue.h"

#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/schedule/error_details.h"
#include "tests/orchestrator/schedule/live_request_fixture.h"
#include "tests/orchestrator/schedule/request_ends.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RequestSpec;

constexpr int kCapacity = 4;

bool Fits(const LiveRequest&) { return true; }
bool FitsNot(const LiveRequest&) { return false; }

class RequestQueueTest : public ::testing::Test {
 protected:
  // Pushes a request and returns its stream. `status`: the result of Push.
  std::shared_ptr<RequestStream> Push(const RequestSpec& spec, absl::Status* status = nullptr) {
    auto request = maker_.Make(spec);
    auto stream = request->stream();
    const absl::Status pushed = queue_.Push(std::move(request));
    if (status == nullptr) {
      EXPECT_TRUE(pushed.ok()) << pushed;
    } else {
      *status = pushed;
    }
    return stream;
  }
  absl::Status TryPush() {
    absl::Status status;
    Push({}, &status);
    return status;
  }
  // The end of the stream's answer; INTERNAL if it has not ended.
  static absl::Status EndOf(RequestStream& stream) {
    OutputDelta delta;
    const auto event = stream.WaitForEvent(absl::ZeroDuration(), delta);
    return event == RequestStream::Event::kEnd ? stream.status()
                                               : absl::InternalError("the answer has not ended");
  }
  RequestQueue::Request Pop() { return queue_.PopIf(Fits); }

  testing::ManualClock clock_;
  testing::RequestMaker maker_{&clock_};
  RequestQueue queue_{kCapacity, &clock_};
};

TEST_F(RequestQueueTest, IsNotReadyBeforeAccept) {
  EXPECT_TRUE(absl::IsUnavailable(TryPush()));
  queue_.Accept();
  EXPECT_TRUE(TryPush().ok());
  EXPECT_EQ(queue_.counts().waiting, 1);
}

TEST_F(RequestQueueTest, ARefusalFailsWaitingRequestsAndNewOnes) {
  queue_.Accept();
  const auto waiting = Push({});
  queue_.Refuse(absl::UnavailableError("the verifier is gone"));
  EXPECT_EQ(EndOf(*waiting).message(), "the verifier is gone");
  EXPECT_EQ(TryPush().message(), "the verifier is gone");
  EXPECT_EQ(queue_.counts().waiting, 0);
  queue_.Accept();
  EXPECT_TRUE(TryPush().ok());
}

TEST_F(RequestQueueTest, NoRequestEntersBetweenTheFailureOfAllAndTheRefusal) {
  // If a request could enter after Refuse had failed the waiting ones, nothing would ever end it.
  constexpr int kRounds = 300;
  for (int round = 0; round < kRounds; ++round) {
    RequestQueue queue(kCapacity, &clock_);
    queue.Accept();
    auto request = maker_.Make({});
    const auto stream = request->stream();
    absl::Status pushed;
    std::thread client([&] { pushed = queue.Push(std::move(request)); });
    queue.Refuse(absl::UnavailableError("gone"));
    client.join();
    const absl::Status end = pushed.ok() ? EndOf(*stream) : pushed;
    EXPECT_TRUE(absl::IsUnavailable(end)) << end;
    EXPECT_EQ(queue.counts().waiting, 0);
  }
}

TEST_F(RequestQueueTest, AFullQueueRefusesWithADelayForTheRetry) {
  queue_.Accept();
  for (int i = 0; i < kCapacity; ++i) Push({});
  const absl::Status refused = TryPush();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  ASSERT_TRUE(RetryDelay(refused).has_value());
  EXPECT_GT(*RetryDelay(refused), absl::ZeroDuration());
  ASSERT_NE(Pop(), nullptr);
  EXPECT_TRUE(TryPush().ok());
}

TEST_F(RequestQueueTest, ACanceledRequestFreesItsPlaceAtOnce) {
  queue_.Accept();
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < kCapacity; ++i) streams.push_back(Push({}));
  queue_.Cancel(*streams[2]);
  EXPECT_EQ(queue_.counts().waiting, kCapacity - 1);
  EXPECT_TRUE(absl::IsCancelled(EndOf(*streams[2])));
  EXPECT_TRUE(TryPush().ok());
}

TEST_F(RequestQueueTest, AnExpiredRequestFreesItsPlace) {
  queue_.Accept();
  const auto expiring = Push({.deadline = absl::Seconds(5)});
  for (int i = 1; i < kCapacity; ++i) Push({.deadline = absl::Seconds(50)});
  clock_.Advance(absl::Seconds(4));
  EXPECT_TRUE(absl::IsResourceExhausted(TryPush()));
  clock_.Advance(absl::Seconds(1));
  EXPECT_TRUE(TryPush().ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf(*expiring)));
  EXPECT_EQ(queue_.counts().waiting, kCapacity);
}

TEST_F(RequestQueueTest, TheDeadlineOfEveryRequestIsWatched) {
  queue_.Accept();
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (const int seconds : {3, 1, 2}) {
    streams.push_back(Push({.deadline = absl::Seconds(seconds)}));
  }
  for (int left = 2; left >= 0; --left) {
    clock_.Advance(absl::Seconds(1));
    EXPECT_TRUE(queue_.AwaitRequest(absl::ZeroDuration()));
    EXPECT_EQ(queue_.counts().waiting, left);
  }
}

TEST_F(RequestQueueTest, AnExpiredRequestIsNotPopped) {
  queue_.Accept();
  const auto expiring = Push({.deadline = absl::Seconds(1)});
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(Pop(), nullptr);
  EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf(*expiring)));
}

TEST_F(RequestQueueTest, ARequestThatDoesNotFitStaysFirst) {
  queue_.Accept();
  Push({.client = "a", .id = "big"});
  EXPECT_EQ(queue_.PopIf(FitsNot), nullptr);
  Push({.client = "b", .id = "small", .priority = 100});
  EXPECT_EQ(queue_.PopIf(FitsNot), nullptr);
  EXPECT_EQ(Pop()->request().request_id, "big");
}

TEST_F(RequestQueueTest, AWaitingRequestOfAFailedCallDoesNotHoldUpOthers) {
  queue_.Accept();
  testing::Ends ends;
  maker_.set_observer(&ends);
  const auto failed = Push({.client = "a", .id = "big"});
  EXPECT_EQ(queue_.PopIf(FitsNot), nullptr);  // Its turn has come.
  Push({.client = "b", .id = "small"});
  failed->Fail(absl::UnavailableError("another answer failed"));
  const auto next = queue_.PopIf(
      [](const LiveRequest& request) { return request.request().request_id == "small"; });
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(queue_.counts().waiting, 0);
  EXPECT_THAT(ends.ended(), ElementsAre(absl::StatusCode::kCancelled));
  EXPECT_EQ(EndOf(*failed).message(), "another answer failed");
}

TEST_F(RequestQueueTest, ACallWithMorePromptsThanTheQueueHoldsIsInvalid) {
  queue_.Accept();
  EXPECT_TRUE(queue_.CheckSize(kCapacity).ok());
  const absl::Status refused = queue_.CheckSize(kCapacity + 1);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("holds 4"));
}

TEST_F(RequestQueueTest, AReturningRequestIsNeverRefused) {
  queue_.Accept();
  Push({.id = "first"});
  auto first = Pop();
  maker_.Admit(*first, 0);
  for (int i = 0; i < kCapacity; ++i) Push({});
  queue_.ReturnPreempted(std::move(first));
  EXPECT_EQ(queue_.counts().waiting, kCapacity + 1);
  EXPECT_EQ(Pop()->request().request_id, "first");
}

TEST_F(RequestQueueTest, ARequestThatWasCanceledWhileItRanDoesNotReturn) {
  queue_.Accept();
  for (const bool parked : {false, true}) {
    const auto stream = Push({});
    auto request = Pop();
    maker_.Admit(*request, 0);
    queue_.Cancel(*stream);
    if (parked) {
      queue_.RecordParked(*request);
      queue_.ReturnParked(std::move(request));
    } else {
      queue_.ReturnPreempted(std::move(request));
    }
    EXPECT_EQ(queue_.counts().waiting, 0);
    EXPECT_TRUE(absl::IsCancelled(EndOf(*stream)));
  }
}

TEST_F(RequestQueueTest, CountsRequestsByState) {
  queue_.Accept();
  const auto expect = [&](int waiting, int running, int parked) {
    const RequestQueue::Counts counts = queue_.counts();
    EXPECT_EQ(counts.waiting, waiting);
    EXPECT_EQ(counts.running, running);
    EXPECT_EQ(counts.parked, parked);
  };
  for (int i = 0; i < 3; ++i) Push({});
  expect(3, 0, 0);
  auto first = Pop(), second = Pop(), third = Pop();
  maker_.Admit(*first, 0);
  expect(0, 3, 0);
  queue_.ReturnPreempted(std::move(first));
  queue_.RecordParked(*second);
  expect(1, 1, 1);
  queue_.ReturnParked(std::move(second));
  queue_.RecordEnd(*third);
  expect(2, 0, 0);
  first = Pop();
  queue_.RecordParked(*first);
  queue_.RecordParkedEnd(*first);
  expect(1, 0, 0);
}

TEST_F(RequestQueueTest, DrainWaitsForTheRequestThatIsServed) {
  queue_.Accept();
  Push({});
  const auto request = Pop();
  bool ended = false;
  std::thread cycle([&] {
    absl::SleepFor(absl::Milliseconds(30));
    ended = true;
    queue_.RecordEnd(*request);
  });
  queue_.Drain(absl::Seconds(10));
  EXPECT_TRUE(ended);
  EXPECT_TRUE(absl::IsUnavailable(TryPush()));
  cycle.join();
}

TEST_F(RequestQueueTest, DrainWaitsForAParkedRequest) {
  queue_.Accept();
  Push({});
  const auto request = Pop();
  queue_.RecordParked(*request);
  bool ended = false;
  std::thread cycle([&] {
    absl::SleepFor(absl::Milliseconds(30));
    ended = true;
    queue_.RecordParkedEnd(*request);
  });
  queue_.Drain(absl::Seconds(10));
  EXPECT_TRUE(ended);
  cycle.join();
}

TEST_F(RequestQueueTest, AwaitRequestEndsWithARequestOrAnInterrupt) {
  queue_.Accept();
  std::thread client([&] {
    absl::SleepFor(absl::Milliseconds(10));
    Push({});
  });
  EXPECT_TRUE(queue_.AwaitRequest(absl::Hours(1)));
  EXPECT_EQ(queue_.counts().waiting, 1);
  client.join();
  ASSERT_NE(Pop(), nullptr);
  std::thread stopper([&] { queue_.Interrupt(); });
  EXPECT_FALSE(queue_.AwaitRequest(absl::Hours(1)));
  queue_.Sleep(absl::Hours(1));  // Returns at once.
  stopper.join();
}

TEST_F(RequestQueueTest, OtherAnswersComeBeforeTheRequestsOfTheirClientAndAreNeverRefused) {
  queue_.Accept();
  Push({.id = "first", .answers = 3});
  const auto first = Pop();
  for (int i = 0; i < kCapacity; ++i) Push({.id = "later"});
  queue_.PushAnswers(first->TakeOtherAnswers());
  EXPECT_TRUE(first->TakeOtherAnswers().empty());
  EXPECT_EQ(queue_.counts().waiting, kCapacity + 2);
  for (const uint64_t answer : {1, 2}) {
    const auto other = Pop();
    EXPECT_EQ(other->request().request_id, "first");
    EXPECT_EQ(other->seed(), answer);
    queue_.RecordEnd(*other);
  }
  EXPECT_EQ(Pop()->request().request_id, "later");
}

TEST_F(RequestQueueTest, OtherAnswersTakeNoPlacesOfNewCalls) {
  queue_.Accept();
  Push({.answers = 2 * kCapacity});
  const auto first = Pop();
  queue_.PushAnswers(first->TakeOtherAnswers());
  for (int i = 0; i < kCapacity; ++i) {
    EXPECT_TRUE(queue_.CheckRoom(0).ok()) << i;
    Push({});
  }
  EXPECT_TRUE(absl::IsResourceExhausted(queue_.CheckRoom(0)));
  // Their turn does not make room either.
  queue_.RecordEnd(*Pop());
  EXPECT_TRUE(absl::IsResourceExhausted(queue_.CheckRoom(0)));
}

TEST_F(RequestQueueTest, CancelRemovesAllAnswersOfACall) {
  queue_.Accept();
  const auto stream = Push({.answers = 3});
  const auto first = Pop();
  queue_.PushAnswers(first->TakeOtherAnswers());
  Push({.id = "other"});
  queue_.Cancel(*stream);
  EXPECT_EQ(queue_.counts().waiting, 1);
  queue_.RecordEnd(*first);
  EXPECT_EQ(Pop()->request().request_id, "other");
}

TEST_F(RequestQueueTest, OtherAnswersOfACanceledCallDoNotEnter) {
  queue_.Accept();
  testing::Ends ends;
  maker_.set_observer(&ends);
  const auto stream = Push({.answers = 3});
  const auto first = Pop();
  queue_.Cancel(*stream);
  queue_.PushAnswers(first->TakeOtherAnswers());
  EXPECT_EQ(queue_.counts().waiting, 0);
  constexpr absl::StatusCode kCancelled = absl::StatusCode::kCancelled;
  EXPECT_THAT(ends.ended(), ElementsAre(kCancelled, kCancelled));
}

TEST_F(RequestQueueTest, OtherAnswersLeaveAtTheirDeadline) {
  queue_.Accept();
  const auto stream = Push({.deadline = clock_.Now() + absl::Seconds(1), .answers = 2});
  const auto first = Pop();
  queue_.PushAnswers(first->TakeOtherAnswers());
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(Pop(), nullptr);
  EXPECT_TRUE(absl::IsDeadlineExceeded(EndOf(*stream)));
}

}  // namespace
}  // namespace bastion
