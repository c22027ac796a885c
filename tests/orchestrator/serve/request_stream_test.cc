#include "orchestrator/serve/request_stream.h"

#include <thread>

#include "gtest/gtest.h"

namespace bastion {
namespace {

using Event = RequestStream::Event;

constexpr absl::Duration kLong = absl::Seconds(30);
constexpr absl::Duration kNone = absl::ZeroDuration();

OutputDelta DeltaOf(const std::string& text) {
  OutputDelta delta;
  delta.text = text;
  delta.tokens = {static_cast<TokenId>(text.size())};
  delta.cycles.resize(1);
  return delta;
}

TEST(RequestStreamTest, WhatWaitsComesTogetherInOrderAndBeforeTheEnd) {
  RequestStream stream;
  OutputEnd end;
  end.completion_tokens = 3;
  OutputDelta delta;
  stream.Push(DeltaOf("one"));
  ASSERT_EQ(stream.Next(kNone, delta), Event::kDelta);
  EXPECT_EQ(delta.text, "one");
  stream.Push(DeltaOf("two"));
  stream.Push(DeltaOf("three"));
  stream.Finish(absl::OkStatus(), end);
  ASSERT_EQ(stream.Next(kNone, delta), Event::kDelta);
  EXPECT_EQ(delta.text, "twothree");
  EXPECT_EQ(delta.tokens, (std::vector<TokenId>{3, 5}));
  EXPECT_EQ(delta.cycles.size(), 2u);
  ASSERT_EQ(stream.Next(kNone, delta), Event::kEnd);
  ASSERT_EQ(stream.Next(kNone, delta), Event::kEnd);
  EXPECT_TRUE(stream.status().ok());
  EXPECT_EQ(stream.end().completion_tokens, 3);
}

TEST(RequestStreamTest, PatienceEndsWithNothing) {
  RequestStream stream;
  OutputDelta delta;
  EXPECT_EQ(stream.Next(absl::Milliseconds(2), delta), Event::kNothing);
}

TEST(RequestStreamTest, TheReaderLosesNothingOfAFastCycle) {
  RequestStream stream;
  std::string all;
  for (int i = 0; i < 100; ++i) all += std::to_string(i);
  std::thread cycle([&] {
    for (int i = 0; i < 100; ++i) stream.Push(DeltaOf(std::to_string(i)));
    stream.Finish(absl::OkStatus());
  });
  std::string read;
  OutputDelta delta;
  while (stream.Next(kLong, delta) == Event::kDelta) read += delta.text;
  EXPECT_EQ(read, all);
  cycle.join();
}

TEST(RequestStreamTest, AfterTheFirstDeltaTheNextOneWaitsForTheInterval) {
  RequestStream stream(absl::Hours(1));
  OutputDelta delta;
  stream.Push(DeltaOf("one"));
  ASSERT_EQ(stream.Next(kLong, delta), Event::kDelta);
  stream.Push(DeltaOf("two"));
  EXPECT_EQ(stream.Next(absl::Milliseconds(2), delta), Event::kNothing);

  RequestStream brisk(absl::Milliseconds(1));
  brisk.Push(DeltaOf("one"));
  ASSERT_EQ(brisk.Next(kLong, delta), Event::kDelta);
  brisk.Push(DeltaOf("two"));
  EXPECT_EQ(brisk.Next(kLong, delta), Event::kDelta);
}

TEST(RequestStreamTest, TheEndDoesNotWaitForTheInterval) {
  RequestStream stream(absl::Hours(1));
  OutputDelta delta;
  stream.Push(DeltaOf("one"));
  ASSERT_EQ(stream.Next(kLong, delta), Event::kDelta);
  std::thread cycle([&] {
    stream.Push(DeltaOf("two"));
    stream.Finish(absl::OkStatus());
  });
  ASSERT_EQ(stream.Next(kLong, delta), Event::kDelta);
  EXPECT_EQ(delta.text, "two");
  EXPECT_EQ(stream.Next(kLong, delta), Event::kEnd);
  cycle.join();
}

TEST(RequestStreamTest, AFullStreamDoesNotWaitForTheInterval) {
  RequestStream stream(absl::Hours(1));
  OutputDelta delta;
  stream.Push(DeltaOf("x"));
  ASSERT_EQ(stream.Next(kLong, delta), Event::kDelta);
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  EXPECT_EQ(stream.Next(kLong, delta), Event::kDelta);
}

TEST(RequestStreamTest, FullAtItsCapacity) {
  RequestStream stream;
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) {
    EXPECT_FALSE(stream.full());
    stream.Push(DeltaOf("x"));
  }
  EXPECT_TRUE(stream.full());
  OutputDelta delta;
  ASSERT_EQ(stream.Next(kNone, delta), Event::kDelta);
  EXPECT_FALSE(stream.full());
}

TEST(RequestStreamTest, CancelIsSeenByTheCycle) {
  RequestStream stream;
  EXPECT_FALSE(stream.cancelled());
  stream.Cancel();
  EXPECT_TRUE(stream.cancelled());
}

TEST(RequestStreamTest, OnlyTheFirstFinishCounts) {
  RequestStream stream;
  stream.Finish(absl::UnavailableError("gone"));
  stream.Finish(absl::OkStatus());
  EXPECT_TRUE(absl::IsUnavailable(stream.status()));
}

TEST(RequestStreamTest, AFailureOfAFullStreamAbortsTheStuckCall) {
  RequestStream stream;
  int aborted = 0;
  stream.OnAbort([&] { ++aborted; });
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  stream.Finish(absl::ResourceExhaustedError("the client does not read"));
  EXPECT_EQ(aborted, 1);
  OutputDelta delta;
  EXPECT_EQ(stream.Next(kNone, delta), Event::kEnd);  // What nobody reads is dropped.
  EXPECT_TRUE(absl::IsResourceExhausted(stream.status()));
}

TEST(RequestStreamTest, NoAbortWhileTheClientReads) {
  RequestStream stream;
  int aborted = 0;
  stream.OnAbort([&] { ++aborted; });
  stream.Push(DeltaOf("x"));
  stream.Finish(absl::UnavailableError("gone"));
  EXPECT_EQ(aborted, 0);
  OutputDelta delta;
  EXPECT_EQ(stream.Next(kNone, delta), Event::kDelta);
  EXPECT_EQ(stream.Next(kNone, delta), Event::kEnd);
}

TEST(RequestStreamTest, NoAbortAfterCancel) {
  // The call is over: what the abort would touch may be gone.
  RequestStream stream;
  int aborted = 0;
  stream.OnAbort([&] { ++aborted; });
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  stream.Cancel();
  stream.Finish(absl::CancelledError("the client went away"));
  EXPECT_EQ(aborted, 0);
}

TEST(RequestStreamTest, AnAnswerThatEndsWellIsNeverAborted) {
  RequestStream stream;
  int aborted = 0;
  stream.OnAbort([&] { ++aborted; });
  for (size_t i = 0; i < RequestStream::kCapacity; ++i) stream.Push(DeltaOf("x"));
  stream.Finish(absl::OkStatus());
  EXPECT_EQ(aborted, 0);
  OutputDelta delta;
  EXPECT_EQ(stream.Next(kNone, delta), Event::kDelta);
}

}  // namespace
}  // namespace bastion
