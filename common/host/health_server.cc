#include "common/host/health_server.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <thread>
#include <utility>

#include "common/base/status.h"
#include "common/host/connection_limits.h"
#include "common/host/listener.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace bastion::wire {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr int kMaxHealthMessageBytes = 1 << 10;

// Everybody may connect. Connections that send no probes are closed soon. At the limit, a new
// connection replaces the oldest one: calls are not counted, because a client that does not read
// can prolong them.
constexpr ConnectionLimits kLimits = {.max_connections = 64,
                                      .handshake = absl::Seconds(5),
                                      .max_streams = 4,
                                      .max_idle = absl::Seconds(10),
                                      .max_age = absl::Minutes(1),
                                      .max_age_grace = absl::Seconds(5)};

// Calls hold no thread, also if the client does not read. gRPC's own health service needs another
// synchronous service on its server. Watch is not implemented; clients then poll with Check.
class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  explicit HealthService(std::function<bool()> is_alive) : is_alive_(std::move(is_alive)) {}

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context,
                                  const HealthCheckRequest* request,
                                  HealthCheckResponse* response) override {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const bool liveness = request->service() == "liveness";
    if (!liveness && !request->service().empty()) {
      reactor->Finish({grpc::StatusCode::NOT_FOUND, "unknown service"});
      return reactor;
    }
    const bool healthy = liveness ? !is_alive_ || is_alive_() : serving_.load();
    response->set_status(healthy ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  void SetServing(bool serving) { serving_ = serving; }

 private:
  const std::function<bool()> is_alive_;
  std::atomic<bool> serving_{false};
};

}  // namespace

class HealthServer::Impl {
 public:
  Impl(std::unique_ptr<Listener> listener, std::function<bool()> is_alive)
      : listener_(std::move(listener)), service_(std::move(is_alive)) {
    grpc::ServerBuilder builder;
    grpc::ResourceQuota quota("bastion-health");
    SetConnectionLimits(kLimits, quota, builder);
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kMaxHealthMessageBytes);
    builder.SetOption(std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
    listener_->AddTo(builder, grpc::InsecureServerCredentials());
    builder.RegisterService(&service_);
    polled_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    if (server_ != nullptr) listener_->Start();
    poller_ = std::thread([this] { Poll(); });
  }
  ~Impl() {
    listener_->Stop();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    polled_->Shutdown();
    poller_.join();
  }

  [[nodiscard]] bool runs() const { return server_ != nullptr; }
  [[nodiscard]] int port() const { return listener_->port(); }
  HealthService& service() { return service_; }

 private:
  // gRPC 1.51 notices calls of callback services only while a thread waits in it. Nothing arrives
  // in the queue.
  void Poll() {
    void* tag = nullptr;
    bool ok = false;
    while (polled_->Next(&tag, &ok)) continue;
  }

  const std::unique_ptr<Listener> listener_;
  HealthService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> polled_;
  std::thread poller_;
  std::unique_ptr<grpc::Server> server_;
};

HealthServer::HealthServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HealthServer::~HealthServer() = default;

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address,
                                                                  std::function<bool()> is_alive) {
  ASSIGN_OR_RETURN(auto listener, Listener::Open({address}, kLimits));
  auto impl = std::make_unique<Impl>(std::move(listener), std::move(is_alive));
  if (impl->runs()) return std::unique_ptr<HealthServer>(new HealthServer(std::move(impl)));
  return absl::InternalError("gRPC cannot start a server for health checks");
}

void HealthServer::SetServing(bool serving) { impl_->service().SetServing(serving); }

int HealthServer::port() const { return impl_->port(); }

}  // namespace bastion::wire
