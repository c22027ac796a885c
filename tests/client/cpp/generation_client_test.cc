// Tests what the client sends besides the request, its callback, and the calls without a stream.
#include "bastion/generation_client.h"

#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "bastion/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using testing::Answers;
using ::testing::Contains;
using testing::FakeServer;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr char kTraceparent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST(GenerationClientTest, TheCallbackGetsAllEvents) {
  const FakeServer server({Answers({"one", "two"})});
  std::string text;
  int events = 0;
  const absl::Status status =
      GenerationClient(server.endpoint()).Generate({}, [&](const v1::GenerateResponse& event) {
        ++events;
        text += event.delta().text();
        return true;
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(events, 4);
  EXPECT_EQ(text, "onetwo");
}

TEST(GenerationClientTest, ACallbackThatReturnsFalseCancelsTheCall) {
  FakeServer server({testing::WaitsForCancel()});
  int events = 0;
  const absl::Status status =
      GenerationClient(server.endpoint()).Generate({}, [&](const v1::GenerateResponse& event) {
        ++events;
        return !event.has_delta();
      });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(events, 2);
  EXPECT_TRUE(server.AwaitCanceled(1));
}

TEST(GenerationClientTest, AnExceptionOfTheCallbackCancelsTheCall) {
  FakeServer server({testing::WaitsForCancel()});
  const GenerationClient client(server.endpoint());
  const auto throws = [](const v1::GenerateResponse&) -> bool { throw std::string("full disk"); };
  EXPECT_THROW((void)client.Generate({}, throws), std::string);
  EXPECT_TRUE(server.AwaitCanceled(1));
}

TEST(GenerationClientTest, TraceTokenAndClientIdReachTheServer) {
  const FakeServer server({Answers({"one"})});
  const testing::TempFolder folder;
  folder.Write("token", "from-a-file\n");
  const RpcOptions options = {
      .traceparent = kTraceparent, .tracestate = "vendor=x", .client_id = "team-a"};
  const auto ignore = [](const v1::GenerateResponse&) { return true; };
  const std::string endpoint = server.endpoint();
  EXPECT_TRUE(GenerationClient(endpoint, {.token = "direct"}).Generate({}, ignore, options).ok());
  EXPECT_TRUE(
      GenerationClient(endpoint, {.token_file = folder.File("token")}).Generate({}, ignore).ok());
  const auto calls = server.calls();
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_THAT(calls[0].metadata, Contains(Pair("traceparent", kTraceparent)));
  EXPECT_THAT(calls[0].metadata, Contains(Pair("tracestate", "vendor=x")));
  EXPECT_THAT(calls[0].metadata, Contains(Pair("client-id", "team-a")));
  EXPECT_THAT(calls[0].metadata, Contains(Pair("authorization", "Bearer direct")));
  EXPECT_THAT(calls[1].metadata, Contains(Pair("authorization", "Bearer from-a-file")));
  EXPECT_THAT(calls[1].metadata, Not(Contains(Key("traceparent"))));
}

TEST(GenerationClientTest, OptionsThatCannotBeSentAreNamed) {
  const FakeServer server({Answers({"one"})});
  const auto ignore = [](const v1::GenerateResponse&) { return true; };
  const absl::Status name =
      GenerationClient(server.endpoint()).Generate({}, ignore, {.client_id = "caf\xc3\xa9"});
  EXPECT_TRUE(absl::IsInvalidArgument(name));
  EXPECT_THAT(std::string(name.message()), HasSubstr("client-id"));
  const absl::Status token =
      GenerationClient(server.endpoint(), {.token = "two\nlines"}).ListModels().status();
  EXPECT_TRUE(absl::IsInvalidArgument(token));
  EXPECT_THAT(std::string(token.message()), HasSubstr("authorization"));
  EXPECT_THAT(std::string(token.message()), Not(HasSubstr("two")));
  const absl::Status file =
      GenerationClient(server.endpoint(), {.token_file = "/missing/token"}).ListModels().status();
  EXPECT_TRUE(absl::IsInvalidArgument(file));
  EXPECT_THAT(std::string(file.message()), HasSubstr("/missing/token"));
  EXPECT_THAT(server.calls(), IsEmpty());
}

TEST(GenerationClientTest, AHostWhoseNameBeginsWithUnixIsReachedOverTls) {
  const ConnectionOptions tls = {.tls_ca = "/missing/ca"};
  const absl::Status host = GenerationClient("unix-gpu1.internal:1", tls).ListModels().status();
  EXPECT_THAT(std::string(host.message()), HasSubstr("/missing/ca"));
  const absl::Status socket = GenerationClient("unix:///missing/socket", tls).ListModels().status();
  EXPECT_TRUE(absl::IsUnavailable(socket)) << socket;
}

TEST(GenerationClientTest, ErrorsOfTheConnectionHaveTheIdOfTheRequest) {
  const auto ignore = [](const v1::GenerateResponse&) { return true; };
  const GenerationClient client("127.0.0.1:1");
  v1::GenerateRequest request;
  const RpcOptions once = {.retry = {.max_attempts = 1}};
  const absl::Status status = client.Generate(request, ignore, once);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(DetailsOf(status).request_id, HasSubstr("req-"));
  request.set_request_id("mine");
  EXPECT_EQ(DetailsOf(client.Generate(request, ignore, once)).request_id, "mine");
}

TEST(GenerationClientTest, WaitForReadyWaitsUntilTheServerStarts) {
  const testing::TempFolder folder;
  const std::string endpoint = "unix://" + folder.File("server.sock");
  const auto ignore = [](const v1::GenerateResponse&) { return true; };
  const GenerationClient client(endpoint);
  EXPECT_TRUE(absl::IsUnavailable(client.Generate({}, ignore, {.retry = {.max_attempts = 1}})));
  absl::Status status = absl::UnknownError("");
  std::thread caller([&] {
    status = client.Generate(
        {}, ignore,
        {.timeout = absl::Seconds(60), .wait_for_ready = true, .retry = {.max_attempts = 1}});
  });
  absl::SleepFor(absl::Milliseconds(200));
  const FakeServer server({Answers({"one"})}, endpoint);
  caller.join();
  EXPECT_TRUE(status.ok()) << status;
}

TEST(GenerationClientTest, ModelsAndHealthOfTheServer) {
  FakeServer server({Answers({})});
  const GenerationClient client(server.endpoint());
  const auto models = client.ListModels();
  ASSERT_TRUE(models.ok()) << models.status();
  EXPECT_EQ(models->models(0).name(), "fake");
  EXPECT_EQ(client.GetServerInfo().status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(client.CheckHealth().ok()) << client.CheckHealth();
  server.SetHealthy(false);
  const absl::Status health = client.CheckHealth();
  EXPECT_TRUE(absl::IsUnavailable(health));
  EXPECT_EQ(health.message(), server.endpoint() + " is NOT_SERVING");
}

}  // namespace
}  // namespace bastion
