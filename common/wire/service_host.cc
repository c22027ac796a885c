#include "common/wire/service_host.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <future>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/protocol.h"

namespace bastion::wire {
namespace {

void EnablePlugins(bool reflection) {
  grpc::EnableDefaultHealthCheckService(true);
  static std::once_flag once;
  if (reflection) std::call_once(once, grpc::reflection::InitProtoReflectionServerBuilderPlugin);
}

// Delays the start of every call until the host is set up. gRPC's health service reports SERVING
// as soon as the server starts, so without the gate a client could see SERVING too early.
class StartupGate final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit StartupGate(std::shared_future<void> open) : open_(std::move(open)) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* /*call*/) override {
    open_.wait();
    return nullptr;  // Only the start of a call is delayed; the call itself is not intercepted.
  }

 private:
  const std::shared_future<void> open_;
};

// Locks the unix sockets of `addresses`. UNAVAILABLE if another process serves one.
absl::StatusOr<std::vector<SocketLock>> LockSockets(const std::vector<std::string>& addresses) {
  std::vector<SocketLock> locks;
  for (const std::string& address : addresses) {
    const std::string path = SocketPath(address);
    if (path.empty()) continue;
    absl::StatusOr<SocketLock> lock = SocketLock::Lock(path);
    if (absl::IsAlreadyExists(lock.status())) {
      return absl::UnavailableError(lock.status().message());
    }
    // Any other error is an error of listening, too, which follows.
    if (lock.ok()) locks.push_back(*std::move(lock));
  }
  return locks;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceHost>> ServiceHost::Start(
    const HostOptions& options, const std::vector<grpc::Service*>& services) {
  EnablePlugins(options.reflection);
  auto host = std::unique_ptr<ServiceHost>(new ServiceHost());
  ASSIGN_OR_RETURN(host->locks_, LockSockets(options.addresses));
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("bastion");
  quota.SetMaxThreads(options.max_threads);
  SetConnectionLimits(options.connections, quota, builder);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(options.max_request_bytes > 0 ? options.max_request_bytes
                                                                 : options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // One or two pollers are enough. gRPC would keep starting and stopping further ones.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  std::vector<int> ports(options.addresses.size(), 0);
  for (size_t i = 0; i < options.addresses.size(); ++i) {
    ASSIGN_OR_RETURN(const auto credentials, options.security->ForAddress(options.addresses[i]));
    builder.AddListeningPort(options.addresses[i], credentials, &ports[i]);
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::promise<void> open;
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(std::make_unique<StartupGate>(open.get_future().share()));
  if (options.watchdog != nullptr) {
    creators.push_back(
        std::make_unique<WriteWatchFactory>(options.watchdog, options.write_patience));
  }
  builder.experimental().SetInterceptorCreators(std::move(creators));
  host->server_ = builder.BuildAndStart();
  if (host->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", absl::StrJoin(options.addresses, ", "),
        "; check that no other process uses an address, that this user may use it, and "
        "that a socket path has at most 107 bytes"));
  }
  for (size_t i = 0; i < ports.size(); ++i) {
    const bool tcp = options.addresses[i].rfind("unix", 0) != 0;
    if (tcp && host->port_ == 0) host->port_ = ports[i];
  }
  if (!options.health_address.empty()) {
    ASSIGN_OR_RETURN(host->health_server_, HealthServer::Start(options.health_address));
  }
  {
    MutexLock lock(&host->mutex_);
    host->health_ = host->server_->GetHealthCheckService();
  }
  host->SetServing(false);
  open.set_value();
  return host;
}

ServiceHost::~ServiceHost() { Shutdown(absl::ZeroDuration()); }

void ServiceHost::SetServing(bool serving) {
  MutexLock lock(&mutex_);
  if (health_ == nullptr) return;
  health_->SetServingStatus(serving);
  if (health_server_ != nullptr) health_server_->SetServing(serving);
}

void ServiceHost::Shutdown(absl::Duration grace) {
  if (server_ == nullptr) return;
  SetServing(false);
  {
    MutexLock lock(&mutex_);
    health_ = nullptr;
  }
  server_->Shutdown(GrpcDeadline(SteadyNow() + grace));
  server_->Wait();
  server_.reset();
  health_server_.reset();
}

}  // namespace bastion::wire
