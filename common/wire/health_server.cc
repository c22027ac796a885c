#include "common/wire/health_server.h"

#include <grpcpp/ext/health_check_service_server_builder_option.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace bastion::wire {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr int kThreads = 4;
constexpr int kMaxMessageBytes = 1 << 10;

// gRPC's own health service needs another synchronous service on its server. Watch is left
// unimplemented, because every watcher would hold a thread; clients then poll with Check.
class HealthService final : public grpc::health::v1::Health::Service {
 public:
  grpc::Status Check(grpc::ServerContext*, const HealthCheckRequest* request,
                     HealthCheckResponse* response) override {
    if (!request->service().empty()) return {grpc::StatusCode::NOT_FOUND, "unknown service"};
    response->set_status(serving_ ? HealthCheckResponse::SERVING
                                  : HealthCheckResponse::NOT_SERVING);
    return grpc::Status::OK;
  }
  void SetServing(bool serving) { serving_ = serving; }

 private:
  std::atomic<bool> serving_{false};
};

}  // namespace

class HealthServer::Impl {
 public:
  explicit Impl(const std::string& address) {
    grpc::ServerBuilder builder;
    grpc::ResourceQuota quota("bastion-health");
    quota.SetMaxThreads(kThreads);
    builder.SetResourceQuota(quota);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetOption(std::make_unique<grpc::HealthCheckServiceServerBuilderOption>(nullptr));
    builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~Impl() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  [[nodiscard]] bool listens() const { return server_ != nullptr && port_ != 0; }
  [[nodiscard]] int port() const { return port_; }
  HealthService& service() { return service_; }

 private:
  HealthService service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

HealthServer::HealthServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HealthServer::~HealthServer() = default;

absl::StatusOr<std::unique_ptr<HealthServer>> HealthServer::Start(const std::string& address) {
  auto impl = std::make_unique<Impl>(address);
  if (impl->listens()) return std::unique_ptr<HealthServer>(new HealthServer(std::move(impl)));
  return absl::UnavailableError(absl::StrCat("cannot serve health checks on ", address,
                                             "; check that no other process uses the address"));
}

void HealthServer::SetServing(bool serving) { impl_->service().SetServing(serving); }

int HealthServer::port() const { return impl_->port(); }

}  // namespace bastion::wire
