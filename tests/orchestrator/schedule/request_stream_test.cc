#include "orchestrator/schedule/request_stream.h"

#include <memory>
#include <thread>

#include "common/base/clock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using Event = RequestStream::Event;

constexpr absl::Duration kLongTimeout = absl::Seconds(30);
constexpr absl::Duration kNoWait = absl::ZeroDuration();

OutputDelta DeltaOf(const std::string& text, int answer = 0) {
  OutputDelta delta;
  delta.answer = answer;
  delta.text = text;
  delta.tokens = {static_cast<TokenId>(text.size())};
  delta.cycles.resize(1);
  return delta;
}

OutputDelta LastDelta(const std::string& text, const OutputEnd& end = {}, int answer = 0) {
  OutputDelta delta = DeltaOf(text, answer);
  delta.end = end;
  return delta;
}

TEST(RequestStreamTest, CombinesPendingOutputInOrderBeforeTheEnd) {
  RequestStream stream;
  OutputEnd end;
  end.completion_tokens = 3;
  OutputDelta delta;
  stream.Push(DeltaOf("one"));
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(delta.text, "one");
  stream.Push(DeltaOf("two"));
  EXPECT_FALSE(delta.end);
  stream.Push(LastDelta("three", end));
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(delta.text, "twothree");
  EXPECT_EQ(delta.tokens, (std::vector<TokenId>{3, 5}));
  EXPECT_EQ(delta.cycles.size(), 2u);
  ASSERT_TRUE(delta.end);
  EXPECT_EQ(delta.end->completion_tokens, 3);
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kEnd);
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kEnd);
  EXPECT_TRUE(stream.status().ok());
}

TEST(RequestStreamTest, WaitForEventTimesOut) {
  RequestStream stream;
  OutputDelta delta;
  EXPECT_EQ(stream.WaitForEvent(absl::Milliseconds(2), delta), Event::kTimeout);
}

TEST(RequestStreamTest, NoOutputIsLostIfCyclesAreFast) {
  RequestStream stream;
  std::string all;
  for (int i = 0; i < 100; ++i) all += std::to_string(i);
  std::thread cycle([&] {
    for (int i = 0; i < 99; ++i) stream.Push(DeltaOf(std::to_string(i)));
    stream.Push(LastDelta("99"));
  });
  std::string read;
  OutputDelta delta;
  while (stream.WaitForEvent(kLongTimeout, delta) == Event::kDelta) read += delta.text;
  EXPECT_EQ(read, all);
  cycle.join();
}

TEST(RequestStreamTest, TheSecondDeltaWaitsForTheInterval) {
  RequestStream stream(absl::Hours(1));
  OutputDelta delta;
  stream.Push(DeltaOf("one"));
  ASSERT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  stream.Push(DeltaOf("two"));
  EXPECT_EQ(stream.WaitForEvent(absl::Milliseconds(2), delta), Event::kTimeout);

  RequestStream frequent(absl::Milliseconds(1));
  frequent.Push(DeltaOf("one"));
  ASSERT_EQ(frequent.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  frequent.Push(DeltaOf("two"));
  EXPECT_EQ(frequent.WaitForEvent(kLongTimeout, delta), Event::kDelta);
}

TEST(RequestStreamTest, TheEndDoesNotWaitForTheInterval) {
  RequestStream stream(absl::Hours(1));
  OutputDelta delta;
  stream.Push(DeltaOf("one"));
  ASSERT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  std::thread cycle([&] { stream.Push(LastDelta("two")); });
  ASSERT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  EXPECT_EQ(delta.text, "two");
  EXPECT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kEnd);
  cycle.join();
}

TEST(RequestStreamTest, AFullStreamDoesNotWaitForTheInterval) {
  RequestStream stream(absl::Hours(1));
  OutputDelta delta;
  stream.Push(DeltaOf("x"));
  ASSERT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  EXPECT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
}

TEST(RequestStreamTest, IsFullAtItsCapacity) {
  RequestStream stream;
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) {
    EXPECT_FALSE(stream.full());
    stream.Push(DeltaOf("x"));
  }
  EXPECT_TRUE(stream.full());
  OutputDelta delta;
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_FALSE(stream.full());
}

// With log-probabilities, 256 cycles of waiting output made a message that clients did not accept.
TEST(RequestStreamTest, IsFullBeforeAMessageIsTooLargeForClients) {
  RequestStream stream;
  int cycles = 0;
  for (; !stream.full(); ++cycles) {
    OutputDelta delta = DeltaOf("x");
    delta.logprobs.resize(13);
    for (TokenLogprobs& token : delta.logprobs) token.top.resize(100);
    stream.Push(std::move(delta));
  }
  EXPECT_GT(cycles, 10);
  EXPECT_LT(cycles, 100);
  OutputDelta delta;
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_FALSE(stream.full());
}

TEST(RequestStreamTest, RecordsWhenTheLastAnswerEnds) {
  RequestStream stream(absl::ZeroDuration(), 2);
  stream.Push(LastDelta("a", {}, 0));
  EXPECT_FALSE(stream.ended());
  const absl::Duration before = Clock::Real().Now();
  stream.Push(LastDelta("b", {}, 1));
  ASSERT_TRUE(stream.ended());
  EXPECT_GE(*stream.ended(), before);
  RequestStream failed;
  failed.Fail(absl::UnavailableError("gone"));
  EXPECT_TRUE(failed.ended());
}

TEST(RequestStreamTest, CancelSetsCanceled) {
  RequestStream stream;
  EXPECT_FALSE(stream.canceled());
  stream.Cancel();
  EXPECT_TRUE(stream.canceled());
}

TEST(RequestStreamTest, OnlyTheFirstEndTakesEffect) {
  RequestStream failed;
  failed.Fail(absl::UnavailableError("gone"));
  failed.Push(LastDelta("x"));
  failed.Fail(absl::InternalError("later"));
  OutputDelta delta;
  EXPECT_EQ(failed.WaitForEvent(kNoWait, delta), Event::kEnd);
  EXPECT_TRUE(absl::IsUnavailable(failed.status()));
  EXPECT_TRUE(failed.canceled());

  RequestStream complete;
  complete.Push(LastDelta("x"));
  complete.Fail(absl::InternalError("later"));
  EXPECT_EQ(complete.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(complete.WaitForEvent(kNoWait, delta), Event::kEnd);
  EXPECT_TRUE(complete.status().ok());
}

TEST(RequestStreamTest, AnswersAreReturnedSeparatelyAndEndSeparately) {
  RequestStream stream(absl::ZeroDuration(), 2);
  stream.Push(DeltaOf("a", 0));
  stream.Push(DeltaOf("b", 1));
  stream.Push(LastDelta("c", {}, 0));
  OutputDelta delta;
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(delta.answer, 0);
  EXPECT_EQ(delta.text, "ac");
  EXPECT_TRUE(delta.end);
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(delta.answer, 1);
  EXPECT_EQ(delta.text, "b");
  EXPECT_FALSE(delta.end);
  EXPECT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kTimeout);
  stream.Push(LastDelta("d", {}, 1));
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(delta.answer, 1);
  EXPECT_TRUE(delta.end);
  EXPECT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kEnd);
  EXPECT_TRUE(stream.status().ok());
}

TEST(RequestStreamTest, TheIntervalHoldsForEachAnswerAndTheEndOfAnyDoesNotWait) {
  RequestStream stream(absl::Hours(1), 2);
  OutputDelta delta;
  for (const int answer : {0, 1}) stream.Push(DeltaOf("x", answer));
  ASSERT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  ASSERT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  stream.Push(DeltaOf("y", 0));
  EXPECT_EQ(stream.WaitForEvent(absl::Milliseconds(2), delta), Event::kTimeout);
  stream.Push(LastDelta("y", {}, 1));
  ASSERT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  EXPECT_EQ(delta.answer, 0);
  ASSERT_EQ(stream.WaitForEvent(kLongTimeout, delta), Event::kDelta);
  EXPECT_EQ(delta.answer, 1);
}

TEST(RequestStreamTest, TheFailureOfOneAnswerEndsAll) {
  RequestStream stream(absl::ZeroDuration(), 2);
  stream.Push(LastDelta("a", {}, 0));
  stream.Push(DeltaOf("b", 1));
  stream.Fail(absl::ResourceExhaustedError("no memory"));
  OutputDelta delta;
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_TRUE(delta.end);
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kEnd);
  EXPECT_TRUE(absl::IsResourceExhausted(stream.status()));
}

TEST(RequestStreamTest, AnErrorOnAFullStreamAbortsTheRpc) {
  RequestStream stream;
  int aborted = 0;
  stream.SetAbortCallback([&] { ++aborted; });
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  stream.Fail(absl::ResourceExhaustedError("the client does not read"));
  EXPECT_EQ(aborted, 1);
  OutputDelta delta;
  EXPECT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kEnd);  // The unread output is discarded.
  EXPECT_TRUE(absl::IsResourceExhausted(stream.status()));
}

TEST(RequestStreamTest, AnErrorDoesNotAbortIfTheStreamIsNotFull) {
  RequestStream stream;
  int aborted = 0;
  stream.SetAbortCallback([&] { ++aborted; });
  stream.Push(DeltaOf("x"));
  stream.Fail(absl::UnavailableError("gone"));
  EXPECT_EQ(aborted, 0);
  OutputDelta delta;
  EXPECT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kEnd);
}

TEST(RequestStreamTest, AnErrorDoesNotAbortAfterCancel) {
  // The call is over, so the objects that the callback uses may be destroyed.
  RequestStream stream;
  int aborted = 0;
  stream.SetAbortCallback([&] { ++aborted; });
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  stream.Cancel();
  stream.Fail(absl::CancelledError("the client disconnected"));
  EXPECT_EQ(aborted, 0);
}

TEST(RequestStreamTest, TheAbortCallbackNeverRunsAfterCancelHasReturned) {
  for (int round = 0; round < 500; ++round) {
    RequestStream stream;
    auto call = std::make_unique<int>(0);  // What the callback uses.
    stream.SetAbortCallback([&call] { ++*call; });
    for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
    std::thread cycle([&] { stream.Fail(absl::ResourceExhaustedError("too slow")); });
    stream.Cancel();
    call.reset();
    cycle.join();
  }
}

TEST(RequestStreamTest, ACompleteAnswerIsNeverAborted) {
  RequestStream stream;
  int aborted = 0;
  stream.SetAbortCallback([&] { ++aborted; });
  for (size_t i = 1; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  stream.Push(LastDelta("x"));
  stream.Fail(absl::DeadlineExceededError("too late"));
  EXPECT_EQ(aborted, 0);
  OutputDelta delta;
  EXPECT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
}

}  // namespace
}  // namespace bastion
