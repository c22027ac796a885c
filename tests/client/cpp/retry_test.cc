// Tests when the client makes a failed call again, and how long it waits before that.
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "bastion/generation_client.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/schedule/error_details.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using testing::Answers;
using ::testing::ElementsAre;
using testing::FailsAfterStarted;
using testing::FakeServer;
using testing::Script;
using ::testing::SizeIs;

const grpc::Status kUnavailable(grpc::StatusCode::UNAVAILABLE, "no verifier");
const RpcOptions kFast = {.retry = {.max_attempts = 3, .initial_backoff = absl::Milliseconds(1)}};

grpc::Status FullFor(absl::Duration delay) {
  return ToGrpcWithDetails(WithRetryDelay(absl::ResourceExhaustedError("full"), delay));
}

struct Answer {
  absl::Status status;
  std::vector<std::string> events;
};
Answer Generate(const FakeServer& server, const RpcOptions& options) {
  Answer answer;
  answer.status = GenerationClient(server.endpoint())
                      .Generate(
                          {},
                          [&](const v1::GenerateResponse& event) {
                            if (event.has_started()) answer.events.push_back("started");
                            if (event.has_delta()) answer.events.push_back(event.delta().text());
                            return true;
                          },
                          options);
  return answer;
}

TEST(RetryTest, AnUnavailableServerIsAskedAgainBeforeTheFirstToken) {
  const FakeServer server({[](auto&, auto&) { return kUnavailable; },
                           FailsAfterStarted(kUnavailable), Answers({"one", "two"})});
  const Answer answer = Generate(server, kFast);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.events, ElementsAre("started", "one", "two"));
  const auto calls = server.calls();
  ASSERT_THAT(calls, SizeIs(3));
  EXPECT_NE(calls[0].request.request_id(), "");
  EXPECT_EQ(calls[1].request.request_id(), calls[0].request.request_id());
}

TEST(RetryTest, ACallIsNotMadeAgainAfterTheFirstToken) {
  const FakeServer server({[](grpc::ServerContext&, testing::Writer& writer) {
                             writer.Write(testing::StartedEvent());
                             writer.Write(testing::DeltaEvent("one"));
                             return kUnavailable;
                           },
                           Answers({"two"})});
  const Answer answer = Generate(server, kFast);
  EXPECT_TRUE(absl::IsUnavailable(answer.status)) << answer.status;
  EXPECT_THAT(answer.events, ElementsAre("started", "one"));
  EXPECT_THAT(server.calls(), SizeIs(1));
}

TEST(RetryTest, OnlyErrorsThatMayPassAreRetried) {
  const grpc::Status permanent[] = {
      {grpc::StatusCode::INVALID_ARGUMENT, "n: is 0"},
      {grpc::StatusCode::NOT_FOUND, "no such model"},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, "the answer alone fills the KV cache"}};
  for (const grpc::Status& status : permanent) {
    const FakeServer server({FailsAfterStarted(status), Answers({"one"})});
    EXPECT_EQ(static_cast<int>(Generate(server, kFast).status.code()), status.error_code());
    EXPECT_THAT(server.calls(), SizeIs(1)) << status.error_message();
  }
}

TEST(RetryTest, TheLastErrorIsReturnedAfterAllAttempts) {
  const FakeServer server({FailsAfterStarted(kUnavailable)});
  const Answer answer = Generate(server, kFast);
  EXPECT_TRUE(absl::IsUnavailable(answer.status)) << answer.status;
  EXPECT_EQ(answer.status.message(), "no verifier");
  EXPECT_THAT(answer.events, ElementsAre("started"));
  EXPECT_THAT(server.calls(), SizeIs(3));
}

TEST(RetryTest, TheClientWaitsAsLongAsTheServerAsks) {
  constexpr absl::Duration kDelay = absl::Milliseconds(200);
  const FakeServer server({FailsAfterStarted(FullFor(kDelay)), Answers({"one"})});
  EXPECT_TRUE(Generate(server, kFast).status.ok());
  const auto calls = server.calls();
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_GE(calls[1].arrival - calls[0].arrival, kDelay);
}

TEST(RetryTest, TheWaitGrowsUpToItsLimit) {
  const FakeServer server({FailsAfterStarted(kUnavailable)});
  const RetryPolicy retry = {.max_attempts = 5,
                             .initial_backoff = absl::Milliseconds(20),
                             .multiplier = 4,
                             .max_backoff = absl::Milliseconds(100)};
  EXPECT_TRUE(absl::IsUnavailable(Generate(server, {.retry = retry}).status));
  const auto calls = server.calls();
  ASSERT_THAT(calls, SizeIs(5));
  constexpr int kHalves[] = {10, 40, 50, 50};  // Half of 20, 80, 100 and 100 ms.
  for (int i = 0; i < 4; ++i) {
    EXPECT_GE(calls[i + 1].arrival - calls[i].arrival, absl::Milliseconds(kHalves[i])) << i;
  }
  EXPECT_LT(calls[4].arrival - calls[0].arrival, absl::Seconds(10)) << "there is no limit";
}

TEST(RetryTest, AnErrorIsReturnedAtOnceIfTheWaitWouldExceedTheTimeout) {
  const FakeServer server({FailsAfterStarted(FullFor(absl::Minutes(30)))});
  RpcOptions options = kFast;
  options.timeout = absl::Minutes(10);
  EXPECT_TRUE(absl::IsResourceExhausted(Generate(server, options).status));
  options.timeout = absl::InfiniteDuration();
  const FakeServer never({FailsAfterStarted(FullFor(absl::Hours(24 * 365 * 1000)))});
  EXPECT_TRUE(absl::IsResourceExhausted(Generate(never, options).status));
  EXPECT_THAT(server.calls(), SizeIs(1));
  EXPECT_THAT(never.calls(), SizeIs(1));
}

TEST(RetryTest, CancelEndsTheWait) {
  const FakeServer server({FailsAfterStarted(FullFor(absl::Minutes(5)))});
  AnswerStream stream = GenerationClient(server.endpoint()).StreamAnswer({});
  ASSERT_NE(stream.Next(), nullptr);
  std::thread other([&] {
    absl::SleepFor(absl::Milliseconds(100));
    stream.Cancel();
  });
  EXPECT_EQ(stream.Next(), nullptr);
  other.join();
  EXPECT_TRUE(absl::IsCancelled(stream.status())) << stream.status();
  EXPECT_THAT(server.calls(), SizeIs(1));
}

TEST(RetryTest, ARetryReachesAServerThatHasStartedMeanwhile) {
  const testing::TempFolder folder;
  const std::string endpoint = "unix://" + folder.File("server.sock");
  const GenerationClient client(endpoint);
  EXPECT_TRUE(absl::IsUnavailable(client.CheckHealth()));
  const FakeServer server({Answers({"one"})}, endpoint);
  // The retries take 0.7 s at most. By default, gRPC does not connect again for a second.
  const absl::Status status = client.ListModels({.retry = {.max_attempts = 4}}).status();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(RetryTest, CallsWithoutAStreamAreMadeAgain) {
  const GenerationClient client("127.0.0.1:1");
  const absl::Duration began = Clock::Real().Now();
  const RpcOptions options = {
      .retry = {.max_attempts = 3, .initial_backoff = absl::Milliseconds(200)}};
  EXPECT_TRUE(absl::IsUnavailable(client.ListModels(options).status()));
  // At least half of 200 and 400 ms.
  EXPECT_GE(Clock::Real().Now() - began, absl::Milliseconds(300));
  const absl::Duration asked = Clock::Real().Now();
  EXPECT_TRUE(absl::IsUnavailable(client.CheckHealth(options)));
  EXPECT_LT(Clock::Real().Now() - asked, absl::Milliseconds(300)) << "CheckHealth was repeated";
}

}  // namespace
}  // namespace bastion
