// The generation service on a real port, over fake stages, for tests with hostile clients.
#ifndef BASTION_TESTS_ORCHESTRATOR_API_HOSTED_SERVICE_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_API_HOSTED_SERVICE_FIXTURE_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/host/service_host.h"
#include "orchestrator/api/generation_service.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion::testing {

class HostedServiceTest : public SchedulerTest {
 protected:
  void Serve() {
    StartAndAwaitReady();
    intake_.emplace(&parser_, scheduler_.get());
    service_.emplace(
        CallOptions{&model_.model(), scheduler_.get()}, &*intake_,
        GenerationServiceOptions{
            .tracer = tracer_.get(), .watchdog = &watchdog_, .slow_client = options_.slow_client});
    host_options_.addresses = {"127.0.0.1:0"};
    host_options_.watchdog = &watchdog_;
    host_options_.write_patience = options_.slow_client;
    auto host = wire::ServiceHost::Start(host_options_, {&*service_});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  void TearDown() override {
    verifier_.Hold(false);
    if (host_ != nullptr) host_->Shutdown(absl::ZeroDuration());
  }

  static v1::GenerateRequest Request(int max_tokens) {
    v1::GenerateRequest request;
    for (const int token : {1, 2, 3}) request.mutable_tokens()->add_ids(token);
    request.mutable_stop()->set_max_tokens(max_tokens);
    return request;
  }
  // A client with a connection of its own.
  std::unique_ptr<v1::GenerationService::Stub> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return v1::GenerationService::NewStub(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", host_->port()), grpc::InsecureChannelCredentials(), arguments));
  }
  // Sends a request over a new connection and reads the answer.
  grpc::Status Generate(const v1::GenerateRequest& request) const {
    const auto stub = Connect();
    grpc::ClientContext context;
    const auto reader = stub->Generate(&context, request);
    v1::GenerateResponse event;
    while (reader->Read(&event)) {
    }
    return reader->Finish();
  }

  const ServedModelFixture model_;
  const RequestParser parser_{&model_.model(), *Policy::Parse("ar")};
  std::unique_ptr<Tracer> tracer_;  // Null: nothing is traced.
  wire::CallWatchdog watchdog_{absl::Milliseconds(5)};
  wire::HostOptions host_options_;
  std::optional<RequestIntake> intake_;
  std::optional<GenerationService> service_;
  std::unique_ptr<wire::ServiceHost> host_;
};

inline constexpr char kGeneratePath[] = "/bastion.v1.GenerationService/Generate";
inline constexpr char kInfoPath[] = "/bastion.v1.GenerationService/GetServerInfo";

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_API_HOSTED_SERVICE_FIXTURE_H_
