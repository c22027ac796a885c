#include "orchestrator/serve/request_stream.h"

#include <thread>

#include "gtest/gtest.h"

namespace bastion {
namespace {

using Event = RequestStream::Event;

constexpr absl::Duration kLongTimeout = absl::Seconds(30);
constexpr absl::Duration kNoWait = absl::ZeroDuration();

OutputDelta DeltaOf(const std::string& text) {
  OutputDelta delta;
  delta.text = text;
  delta.tokens = {static_cast<TokenId>(text.size())};
  delta.cycles.resize(1);
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
  stream.Push(DeltaOf("three"));
  stream.Close(absl::OkStatus(), end);
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
  EXPECT_EQ(delta.text, "twothree");
  EXPECT_EQ(delta.tokens, (std::vector<TokenId>{3, 5}));
  EXPECT_EQ(delta.cycles.size(), 2u);
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kEnd);
  ASSERT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kEnd);
  EXPECT_TRUE(stream.status().ok());
  EXPECT_EQ(stream.end().completion_tokens, 3);
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
    for (int i = 0; i < 100; ++i) stream.Push(DeltaOf(std::to_string(i)));
    stream.Close(absl::OkStatus());
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
  std::thread cycle([&] {
    stream.Push(DeltaOf("two"));
    stream.Close(absl::OkStatus());
  });
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

TEST(RequestStreamTest, CancelSetsCanceled) {
  RequestStream stream;
  EXPECT_FALSE(stream.canceled());
  stream.Cancel();
  EXPECT_TRUE(stream.canceled());
}

TEST(RequestStreamTest, OnlyTheFirstCloseTakesEffect) {
  RequestStream stream;
  stream.Close(absl::UnavailableError("gone"));
  stream.Close(absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(stream.status()));
}

TEST(RequestStreamTest, AnErrorOnAFullStreamAbortsTheRpc) {
  RequestStream stream;
  int aborted = 0;
  stream.SetAbortCallback([&] { ++aborted; });
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  stream.Close(absl::ResourceExhaustedError("the client does not read"));
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
  stream.Close(absl::UnavailableError("gone"));
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
  stream.Close(absl::CancelledError("the client disconnected"));
  EXPECT_EQ(aborted, 0);
}

TEST(RequestStreamTest, ACompleteAnswerIsNeverAborted) {
  RequestStream stream;
  int aborted = 0;
  stream.SetAbortCallback([&] { ++aborted; });
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  stream.Close(absl::OkStatus());
  EXPECT_EQ(aborted, 0);
  OutputDelta delta;
  EXPECT_EQ(stream.WaitForEvent(kNoWait, delta), Event::kDelta);
}

}  // namespace
}  // namespace bastion
