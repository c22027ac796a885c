#include "tests/client/cpp/fake_server.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/clock.h"

namespace bastion::testing {

class FakeServer::Service final : public v1::GenerationService::Service {
 public:
  explicit Service(FakeServer* server) : server_(*server) {}

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        Writer* writer) override {
    ArrivedCall call = {.request = *request,
                        .arrival = Clock::Real().Now(),
                        .time_left = absl::FromChrono(context->deadline()) - absl::Now()};
    for (const auto& [key, value] : context->client_metadata()) {
      call.metadata.emplace(std::string(key.data(), key.size()),
                            std::string(value.data(), value.size()));
    }
    size_t index = 0;
    {
      MutexLock lock(&server_.mutex_);
      index = std::min(server_.calls_.size(), server_.scripts_.size() - 1);
      server_.calls_.push_back(std::move(call));
    }
    const grpc::Status status = server_.scripts_[index](*context, *writer);
    MutexLock lock(&server_.mutex_);
    if (context->IsCancelled()) ++server_.canceled_;
    return status;
  }
  grpc::Status ListModels(grpc::ServerContext*, const v1::ListModelsRequest*,
                          v1::ListModelsResponse* response) override {
    response->add_models()->set_name("fake");
    return grpc::Status::OK;
  }

 private:
  FakeServer& server_;
};

FakeServer::FakeServer(std::vector<Script> scripts, const std::string& address)
    : scripts_(std::move(scripts)), service_(std::make_unique<Service>(this)) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  CHECK(server_ != nullptr);
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

std::string FakeServer::endpoint() const { return "127.0.0.1:" + std::to_string(port_); }

std::vector<ArrivedCall> FakeServer::calls() const {
  MutexLock lock(&mutex_);
  return calls_;
}

bool FakeServer::AwaitCanceled(int count) {
  MutexLock lock(&mutex_);
  const auto reached = [&] {
    mutex_.AssertHeld();
    return canceled_ >= count;
  };
  return mutex_.AwaitWithTimeout(reached, absl::Seconds(20));
}

v1::GenerateResponse StartedEvent() {
  v1::GenerateResponse event;
  event.mutable_started()->set_model("fake");
  return event;
}

v1::GenerateResponse DeltaEvent(const std::string& text) {
  v1::GenerateResponse event;
  event.mutable_delta()->set_text(text);
  return event;
}

Script Answers(std::vector<std::string> texts) {
  return [texts = std::move(texts)](grpc::ServerContext&, Writer& writer) {
    writer.Write(StartedEvent());
    for (const std::string& text : texts) writer.Write(DeltaEvent(text));
    v1::GenerateResponse end;
    end.mutable_finished()->set_reason(v1::FINISH_REASON_STOP);
    writer.Write(end);
    return grpc::Status::OK;
  };
}

Script FailsAfterStarted(grpc::Status status) {
  return [status = std::move(status)](grpc::ServerContext&, Writer& writer) {
    writer.Write(StartedEvent());
    return status;
  };
}

Script WaitsForCancel() {
  return [](grpc::ServerContext& context, Writer& writer) {
    writer.Write(StartedEvent());
    writer.Write(DeltaEvent("one"));
    while (!context.IsCancelled()) absl::SleepFor(absl::Milliseconds(1));
    return grpc::Status(grpc::StatusCode::CANCELLED, "");
  };
}

}  // namespace bastion::testing
