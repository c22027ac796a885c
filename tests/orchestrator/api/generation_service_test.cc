// Tests what clients see of the scheduler's decisions, over gRPC.
#include "orchestrator/api/generation_service.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <thread>

#include "bastion/v1/error_details.pb.h"
#include "gmock/gmock.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

class GenerationServiceTest : public testing::SchedulerTest {
 protected:
  // Serves the fake stages over gRPC.
  void Serve() {
    StartAndAwaitReady();
    intake_.emplace(&parser_, scheduler_.get());
    service_.emplace(CallOptions{&model_.model(), scheduler_.get()}, &*intake_,
                     GenerationServiceOptions{});
    grpc::ServerBuilder builder;
    builder.RegisterService(&*service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::GenerationService::NewStub(server_->InProcessChannel({}));
  }
  void TearDown() override {
    verifier_.Hold(false);
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  // Sends a request with the given token ids and reads the answer. Returns the status of the call.
  grpc::Status Generate(grpc::ClientContext& context, const std::vector<int>& tokens = {1, 2, 3},
                        int max_tokens = 5) {
    v1::GenerateRequest request;
    request.mutable_tokens()->mutable_ids()->Assign(tokens.begin(), tokens.end());
    request.mutable_stop()->set_max_tokens(max_tokens);
    const auto reader = stub_->Generate(&context, request);
    v1::GenerateResponse event;
    while (reader->Read(&event)) {
    }
    return reader->Finish();
  }

  const testing::ServedModelFixture model_;
  const RequestParser parser_{&model_.model(), *Policy::Parse("ar")};
  std::optional<RequestIntake> intake_;
  std::optional<GenerationService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

TEST_F(GenerationServiceTest, ARefusedClientLearnsWhenToRetry) {
  options_.max_running = 1;
  options_.max_waiting = 1;
  Serve();
  verifier_.Hold(true);
  std::vector<std::shared_ptr<RequestStream>> streams = {Submit({})};
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
  streams.push_back(Submit({}));
  grpc::ClientContext context;
  const grpc::Status status = Generate(context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::ErrorStatus details;
  ASSERT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::RetryInfo info;
  for (const auto& detail : details.details()) {
    if (detail.type_url() != "type.googleapis.com/google.rpc.RetryInfo") continue;
    ASSERT_TRUE(info.ParseFromString(detail.value()));
  }
  EXPECT_GT(info.retry_delay().seconds() + info.retry_delay().nanos(), 0);
}

TEST_F(GenerationServiceTest, ALongClientIdIsRefused) {
  Serve();
  grpc::ClientContext context;
  context.AddMetadata("client-id", std::string(129, 'x'));
  const grpc::Status status = Generate(context);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("client-id"));
  grpc::ClientContext again;
  again.AddMetadata("client-id", std::string(128, 'x'));
  EXPECT_TRUE(Generate(again).ok());
}

TEST_F(GenerationServiceTest, ClientsTakeTurns) {
  options_.max_running = 1;
  Serve();
  verifier_.Hold(true);
  std::vector<std::shared_ptr<RequestStream>> streams;
  for (int i = 0; i < 5; ++i) streams.push_back(Submit({.client = "many", .seed = 1}));
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 4; }));
  std::thread client([&] {
    grpc::ClientContext context;
    context.AddMetadata("client-id", "one");
    EXPECT_TRUE(Generate(context).ok());
  });
  EXPECT_TRUE(Await([&] { return scheduler_->stats().waiting == 5; }));
  verifier_.Hold(false);
  client.join();
  for (const auto& stream : streams) EXPECT_TRUE(testing::ReadAll(*stream).status.ok());
  ASSERT_EQ(verifier_.opened().size(), 6u);
  EXPECT_NE(verifier_.opened()[1], 1u);
}

TEST_F(GenerationServiceTest, APromptBeyondTheKvCacheIsAnInvalidArgument) {
  verifier_.fake()->kv_tokens = 4 * testing::kToyPage;
  Serve();
  grpc::ClientContext context;
  const grpc::Status status = Generate(context, std::vector<int>(65, 1));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("prompt"));
}

TEST_F(GenerationServiceTest, TheDeadlineOfAWaitingCallFreesItsPlace) {
  options_.max_running = 1;
  Serve();
  verifier_.Hold(true);
  const auto running = Submit({});
  ASSERT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
  EXPECT_EQ(Generate(context).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  // The cycle's thread is busy all the time.
  EXPECT_TRUE(Await([&] { return scheduler_->stats().waiting == 0; }));
}

TEST_F(GenerationServiceTest, ServerInfoStatesTheUseOfTheKvCache) {
  options_.park_after = absl::ZeroDuration();
  Serve();
  const auto parked = SubmitStalled();
  EXPECT_TRUE(Await([&] { return scheduler_->stats().parked == 1; }));
  EXPECT_TRUE(AwaitFreeTokens(verifier_.fake()->kv_tokens));
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(stub_->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.parked_requests(), 1u);
  EXPECT_EQ(info.preemptions(), 0u);
  EXPECT_EQ(info.free_kv_tokens(), static_cast<uint64_t>(verifier_.fake()->kv_tokens));
}

}  // namespace
}  // namespace bastion
