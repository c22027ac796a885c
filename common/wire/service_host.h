// ServiceHost: the gRPC server of a service process, with health checks, reflection, a limit on
// threads and an orderly shutdown.
#ifndef BASTION_COMMON_WIRE_SERVICE_HOST_H_
#define BASTION_COMMON_WIRE_SERVICE_HOST_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/wire/socket_lock.h"

namespace bastion::wire {

struct HostOptions {
  // gRPC addresses: "unix:///run/bastion/verifier.sock", "127.0.0.1:7070".
  std::vector<std::string> addresses;
  int max_threads = 64;  // Limit on concurrent calls. Further calls wait.
  int max_message_bytes = 16 << 20;
  bool reflection = true;
  // How long a connection may be silent before the server asks the client for a sign of life, and
  // how long it waits for it. A client that has vanished frees its threads and sequences after
  // both.
  absl::Duration keepalive = absl::Seconds(20);
  absl::Duration keepalive_timeout = absl::Seconds(10);
};

// SetServing is thread-safe, and does nothing after Shutdown. All else is for one thread.
class ServiceHost {
 public:
  // Starts to serve `services`. Health is NOT_SERVING until SetServing(true). UNAVAILABLE if it
  // cannot listen on an address; the message names the addresses. A unix socket of another live
  // process is not taken over. REQUIRES: `services` outlive the host.
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(
      const HostOptions& options, const std::vector<grpc::Service*>& services);
  ~ServiceHost();

  // Sets the health status to SERVING or NOT_SERVING.
  void SetServing(bool serving) ABSL_LOCKS_EXCLUDED(mutex_);

  // Refuses new calls and cancels the running calls after `grace`. Returns when all calls have
  // ended.
  void Shutdown(absl::Duration grace) ABSL_LOCKS_EXCLUDED(mutex_);

  // The bound port of the first TCP address; tests listen on port 0. 0 if there is no TCP address.
  [[nodiscard]] int port() const { return port_; }

 private:
  ServiceHost() = default;
  std::vector<SocketLock> locks_;  // One per unix socket.
  std::unique_ptr<grpc::Server> server_;
  Mutex mutex_;
  // The server's, or null after Shutdown.
  grpc::HealthCheckServiceInterface* health_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int port_ = 0;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SERVICE_HOST_H_
