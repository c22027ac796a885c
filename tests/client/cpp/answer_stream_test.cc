// Tests the events, the end and the cancellation of streams.
#include "bastion/answer_stream.h"

#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "bastion/error_details.h"
#include "bastion/generation_client.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/schedule/error_details.h"
#include "tests/client/cpp/fake_server.h"

namespace bastion {
namespace {

using testing::Answers;
using ::testing::ElementsAre;
using testing::FakeServer;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::WaitsForCancel;

// The events that are left, in short.
std::vector<std::string> Rest(AnswerStream& stream) {
  std::vector<std::string> events;
  while (const v1::GenerateResponse* const event = stream.Next()) {
    if (event->has_started()) events.push_back("started");
    if (event->has_delta()) events.push_back(event->delta().text());
    if (event->has_finished()) events.push_back("finished");
  }
  return events;
}

TEST(AnswerStreamTest, TheEventsArriveInOrder) {
  const FakeServer server({Answers({"one", "two"})});
  AnswerStream stream = GenerationClient(server.endpoint()).StreamAnswer({});
  EXPECT_THAT(Rest(stream), ElementsAre("started", "one", "two", "finished"));
  EXPECT_TRUE(stream.status().ok()) << stream.status();
  EXPECT_EQ(stream.Next(), nullptr);
}

TEST(AnswerStreamTest, AStreamThatWasMovedGoesOn) {
  const FakeServer server({Answers({"one", "two"})});
  const GenerationClient client(server.endpoint());
  AnswerStream first = client.StreamAnswer({});
  ASSERT_NE(first.Next(), nullptr);
  AnswerStream stream = std::move(first);
  EXPECT_THAT(Rest(stream), ElementsAre("one", "two", "finished"));
  stream = client.StreamAnswer({});
  EXPECT_THAT(Rest(stream), SizeIs(4));
}

TEST(AnswerStreamTest, TheErrorOfTheServerEndsTheStream) {
  const FakeServer server({[](grpc::ServerContext&, testing::Writer&) {
    return ToGrpcWithDetails(WithRequestId(FieldError("n", "is 0"), "req-1"));
  }});
  AnswerStream stream = GenerationClient(server.endpoint()).StreamAnswer({});
  EXPECT_EQ(stream.Next(), nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(stream.status()));
  EXPECT_EQ(DetailsOf(stream.status()).request_id, "req-1");
  EXPECT_EQ(DetailsOf(stream.status()).field_violations.at(0).field, "n");
}

TEST(AnswerStreamTest, CancelFromAnotherThreadEndsNextAndReachesTheServer) {
  FakeServer server({WaitsForCancel()});
  AnswerStream stream = GenerationClient(server.endpoint()).StreamAnswer({});
  ASSERT_NE(stream.Next(), nullptr);
  ASSERT_NE(stream.Next(), nullptr);
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(50));
    stream.Cancel();
  });
  EXPECT_EQ(stream.Next(), nullptr);
  other.join();
  EXPECT_TRUE(absl::IsCancelled(stream.status())) << stream.status();
  EXPECT_TRUE(server.AwaitCanceled(1));
}

TEST(AnswerStreamTest, CancelBeforeTheFirstNextSendsNothing) {
  const FakeServer server({Answers({"one"})});
  AnswerStream stream = GenerationClient(server.endpoint()).StreamAnswer({});
  stream.Cancel();
  EXPECT_EQ(stream.Next(), nullptr);
  EXPECT_TRUE(absl::IsCancelled(stream.status()));
  EXPECT_THAT(server.calls(), IsEmpty());
}

TEST(AnswerStreamTest, CancelEndsAWaitForTheServer) {
  AnswerStream stream = GenerationClient("127.0.0.1:1").StreamAnswer({}, {.wait_for_ready = true});
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(50));
    stream.Cancel();
  });
  EXPECT_EQ(stream.Next(), nullptr);
  other.join();
  EXPECT_TRUE(absl::IsCancelled(stream.status())) << stream.status();
}

TEST(AnswerStreamTest, TheEndOfAStreamCancelsItsCall) {
  FakeServer server({WaitsForCancel()});
  {
    AnswerStream stream = GenerationClient(server.endpoint()).StreamAnswer({});
    ASSERT_NE(stream.Next(), nullptr);
  }
  EXPECT_TRUE(server.AwaitCanceled(1));
}

TEST(AnswerStreamTest, TheTimeoutEndsTheCallAndReachesTheServer) {
  FakeServer server({WaitsForCancel()});
  AnswerStream stream =
      GenerationClient(server.endpoint()).StreamAnswer({}, {.timeout = absl::Milliseconds(300)});
  EXPECT_THAT(Rest(stream), ElementsAre("started", "one"));
  EXPECT_TRUE(absl::IsDeadlineExceeded(stream.status())) << stream.status();
  EXPECT_TRUE(server.AwaitCanceled(1));
  EXPECT_LT(server.calls().at(0).time_left, absl::Seconds(1));
}

}  // namespace
}  // namespace bastion
