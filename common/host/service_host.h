// ServiceHost: the gRPC server of a service process, with health checks, reflection, a limit on
// threads and an orderly shutdown.
#ifndef BASTION_COMMON_HOST_SERVICE_HOST_H_
#define BASTION_COMMON_HOST_SERVICE_HOST_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/host/call_watchdog.h"
#include "common/host/connection_limits.h"
#include "common/host/health_server.h"
#include "common/host/listener.h"
#include "common/wire/clock_watch.h"
#include "common/wire/message_stream.h"
#include "common/wire/security.h"

namespace bastion::wire {

struct HostOptions {
  // "unix:///run/bastion/verifier.sock", "127.0.0.1:7070"; see Listener::Open.
  std::vector<std::string> addresses;
  int max_threads = 64;  // Limit on concurrent calls. Further ones are refused.
  int max_message_bytes = 16 << 20;
  int max_request_bytes = 0;  // Limit on messages from clients. 0: max_message_bytes.
  bool reflection = false;
  std::shared_ptr<const Security> security = Security::None();
  // Further address, host:port, that serves only health checks, in clear text. Empty: none.
  std::string health_address = {};
  // Whether the health check "liveness" of that address succeeds. Called by several threads. Empty:
  // always.
  std::function<bool()> is_alive = {};
  ConnectionLimits connections = {};
  // See Listener::Open.
  std::function<void()> on_connection_refused = {};
  // Cancels calls whose client does not take a message within `write_patience`. Null: the host has
  // one of its own. Not owned; must outlive the host.
  CallWatchdog* watchdog = nullptr;
  absl::Duration write_patience = kSendLimit;
};

// SetServing is thread-safe, and does nothing after Shutdown. All else is for one thread.
class ServiceHost {
 public:
  // Starts to serve `services`. Health is NOT_SERVING until SetServing(true). Errors:
  // Listener::Open, Security::ForAddress. REQUIRES: `services` outlive the host.
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(
      const HostOptions& options, const std::vector<grpc::Service*>& services);
  ~ServiceHost();

  // Sets the health status to SERVING or NOT_SERVING. No effect after Shutdown.
  void SetServing(bool serving) ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new connections. Ends those that are open as soon as no call runs, or after `grace`;
  // their clients see UNAVAILABLE. Returns when all calls have ended.
  void Shutdown(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

  // The bound port of the health address; 0 if there is none.
  [[nodiscard]] int health_port() const {
    return health_server_ == nullptr ? 0 : health_server_->port();
  }
  // The bound port of the first TCP address; tests listen on port 0. 0 if there is no TCP address.
  [[nodiscard]] int port() const { return listener_->port(); }

 private:
  ServiceHost() = default;
  ClockWatch clock_watch_;
  std::unique_ptr<CallWatchdog> watchdog_;  // Null if the options have one.
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<HealthServer> health_server_;  // Null unless there is a health address.
  Mutex mutex_;
  // The server's, or null after Shutdown.
  grpc::HealthCheckServiceInterface* health_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_SERVICE_HOST_H_
