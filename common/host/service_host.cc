#include "common/host/service_host.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>

#include <mutex>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/wire/protocol.h"

namespace bastion::wire {
namespace {

// How often the host's own watchdog looks for clients that take no messages.
constexpr absl::Duration kWatchInterval = absl::Seconds(1);

// gRPC's own log lines must not block its threads either.
void LogForGrpc(gpr_log_func_args* line) {
  constexpr base::Severity kSeverities[] = {base::Severity::kInfo, base::Severity::kInfo,
                                            base::Severity::kError};  // Debug, info, error.
  base::LogLine(kSeverities[line->severity], line->file, line->line).stream() << line->message;
}

void EnablePlugins(bool reflection) {
  gpr_set_log_function(LogForGrpc);
  grpc::EnableDefaultHealthCheckService(true);
  static std::once_flag once;
  if (reflection) std::call_once(once, grpc::reflection::InitProtoReflectionServerBuilderPlugin);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServiceHost>> ServiceHost::Start(
    const HostOptions& options, const std::vector<grpc::Service*>& services) {
  EnablePlugins(options.reflection);
  std::vector<std::shared_ptr<grpc::ServerCredentials>> credentials;
  for (const std::string& address : options.addresses) {
    ASSIGN_OR_RETURN(credentials.emplace_back(), options.security->ForAddress(address));
  }
  auto host = std::unique_ptr<ServiceHost>(new ServiceHost());
  ASSIGN_OR_RETURN(host->listener_, Listener::Open(options.addresses, options.connections,
                                                   options.on_connection_refused));
  grpc::ServerBuilder builder;
  grpc::ResourceQuota quota("bastion");
  quota.SetMaxThreads(options.max_threads);
  SetConnectionLimits(options.connections, quota, builder);
  builder.SetResourceQuota(quota);
  builder.SetMaxReceiveMessageSize(options.max_request_bytes > 0 ? options.max_request_bytes
                                                                 : options.max_message_bytes);
  builder.SetMaxSendMessageSize(options.max_message_bytes);
  // Peers ping every 5 seconds (ConnectPeer).
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 4000);
  // One or two pollers are enough. gRPC would keep starting and stopping further ones.
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::MAX_POLLERS, 2);
  for (auto& of_address : credentials) host->listener_->AddTo(builder, std::move(of_address));
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>> creators;
  creators.push_back(host->listener_->CallCounter());
  if (options.watchdog == nullptr) {
    host->watchdog_ = std::make_unique<CallWatchdog>(kWatchInterval);
  }
  creators.push_back(std::make_unique<WriteWatchFactory>(
      options.watchdog != nullptr ? options.watchdog : host->watchdog_.get(),
      options.write_patience));
  builder.experimental().SetInterceptorCreators(std::move(creators));
  host->server_ = builder.BuildAndStart();
  if (host->server_ == nullptr) return absl::InternalError("gRPC cannot start a server");
  if (!options.health_address.empty()) {
    ASSIGN_OR_RETURN(host->health_server_,
                     HealthServer::Start(options.health_address, options.is_alive));
  }
  {
    MutexLock lock(&host->mutex_);
    host->health_ = host->server_->GetHealthCheckService();
  }
  // gRPC's health service says SERVING when the server starts. No client has connected so far.
  host->SetServing(false);
  host->listener_->Start();
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
  const absl::Time deadline = SteadyNow() + grace;
  listener_->Stop(deadline);
  server_->Shutdown(GrpcDeadline(deadline));
  server_->Wait();
  server_.reset();
  health_server_.reset();
}

}  // namespace bastion::wire
