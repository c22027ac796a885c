// ServiceHost: the gRPC server of a service process, with health checks, reflection, a limit on
// threads and an orderly shutdown on SIGTERM or SIGINT.
#ifndef BASTION_COMMON_WIRE_SERVICE_HOST_H_
#define BASTION_COMMON_WIRE_SERVICE_HOST_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/wire/call_watchdog.h"
#include "common/wire/connection_limits.h"

namespace bastion::wire {

struct HostOptions {
  // gRPC addresses: "unix:///run/bastion/verifier.sock", "127.0.0.1:7070".
  std::vector<std::string> addresses;
  int max_threads = 64;  // Limit on concurrent calls. Further calls wait.
  int max_message_bytes = 16 << 20;
  int max_request_bytes = 0;  // Limit on messages from clients. 0: max_message_bytes.
  bool reflection = true;
  ConnectionLimits connections = {};
  // Cancels calls whose client does not take a message within `write_patience`. Null: no limit.
  // Not owned; must outlive the host.
  CallWatchdog* watchdog = nullptr;
  absl::Duration write_patience = absl::Seconds(30);
};

// SetServing is thread-safe and may be called at any time; the rest is thread-compatible.
class ServiceHost {
 public:
  // Starts to serve `services`. Health is NOT_SERVING until SetServing(true). UNAVAILABLE if it
  // cannot listen on an address; the message names the addresses. REQUIRES: `services` outlive the
  // host.
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(
      const HostOptions& options, const std::vector<grpc::Service*>& services);
  ~ServiceHost();

  // Sets the health status to SERVING or NOT_SERVING. No effect after Shutdown.
  void SetServing(bool serving) ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new calls and cancels the running calls after `grace`. Returns when all calls have
  // ended.
  void Shutdown(absl::Duration grace);

  // The bound port of the first TCP address; tests listen on port 0. 0 if there is no TCP address.
  [[nodiscard]] int port() const { return port_; }

 private:
  ServiceHost() = default;
  Mutex mutex_;
  // The thread that starts and stops the host also reads it without the lock.
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

// Blocks SIGTERM and SIGINT in this thread and in the threads that it starts later, and ignores
// SIGPIPE: a reader of the log that goes away must not end the service. Call it at the start of
// main.
void BlockStopSignals();
// Waits for SIGTERM or SIGINT and returns its name.
[[nodiscard]] std::string WaitForStopSignal();

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SERVICE_HOST_H_
