#include "common/wire/service_host.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <future>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/clock.h"
#include "common/wire/protocol.h"

namespace bastion::wire {
namespace {

int Milliseconds(absl::Duration time) { return static_cast<int>(absl::ToInt64Milliseconds(time)); }

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

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceHost>> ServiceHost::Start(
    const HostOptions& options, const std::vector<grpc::Service*>& services) {
  EnablePlugins(options.reflection);
  auto host = std::unique_ptr<ServiceHost>(new ServiceHost());
  for (const std::string& address : options.addresses) {
    const std::string path = SocketPath(address);
    if (path.empty()) continue;
    absl::StatusOr<SocketLock> lock = SocketLock::Lock(path);
    if (absl::IsAlreadyExists(lock.status())) {
      return absl::UnavailableError(lock.status().message());
    }
    // Any other error is an error of listening, too, which follows.
    if (lock.ok()) host->locks_.push_back(*std::move(lock));
  }
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("bastion");
  quota.SetMaxThreads(options.max_threads);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(options.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // One or two pollers are enough. gRPC would keep starting and stopping further ones.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  std::vector<int> ports(options.addresses.size(), 0);
  for (size_t i = 0; i < options.addresses.size(); ++i) {
    builder.AddListeningPort(options.addresses[i], grpc::InsecureServerCredentials(), &ports[i]);
  }
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::promise<void> open;
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> gate;
  gate.push_back(std::make_unique<StartupGate>(open.get_future().share()));
  builder.experimental().SetInterceptorCreators(std::move(gate));
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
  if (health_ != nullptr) health_->SetServingStatus(serving);
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
}

}  // namespace bastion::wire
