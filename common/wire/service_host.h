// ServiceHost: the gRPC server of a service process, with health checks, reflection, a limit on
// threads and an orderly shutdown on SIGTERM or SIGINT.
#ifndef BASTION_COMMON_WIRE_SERVICE_HOST_H_
#define BASTION_COMMON_WIRE_SERVICE_HOST_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/wire/health_server.h"
#include "common/wire/security.h"

namespace bastion::wire {

struct HostOptions {
  // gRPC addresses: "unix:///run/bastion/verifier.sock", "127.0.0.1:7070".
  std::vector<std::string> addresses;
  int max_threads = 64;  // Limit on concurrent calls. Further calls wait.
  int max_message_bytes = 16 << 20;
  bool reflection = false;
  std::shared_ptr<const Security> security = Security::None();
  // Further address, host:port, that serves only health checks, in clear text. Empty: none.
  std::string health_address = {};
};

// Thread-compatible.
class ServiceHost {
 public:
  // Starts to serve `services`. Health is NOT_SERVING until SetServing(true). UNAVAILABLE if it
  // cannot listen on an address; the message names the addresses. Other errors:
  // Security::ForAddress. REQUIRES: `services` outlive the
  // host.
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(
      const HostOptions& options, const std::vector<grpc::Service*>& services);
  ~ServiceHost();

  // Sets the health status to SERVING or NOT_SERVING.
  void SetServing(bool serving);

  // Refuses new calls and cancels the running calls after `grace`. Returns when all calls have
  // ended.
  void Shutdown(absl::Duration grace);

  // The bound port of the health address; 0 if there is none.
  [[nodiscard]] int health_port() const {
    return health_server_ == nullptr ? 0 : health_server_->port();
  }
  // The bound port of the first TCP address; tests listen on port 0. 0 if there is no TCP address.
  [[nodiscard]] int port() const { return port_; }

 private:
  ServiceHost() = default;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<HealthServer> health_server_;  // Null unless there is a health address.
  int port_ = 0;
};

// Blocks SIGTERM and SIGINT in this thread and in the threads that it starts later. Call it at the
// start of main.
void BlockStopSignals();
// Waits for SIGTERM or SIGINT and returns its name.
[[nodiscard]] std::string WaitForStopSignal();

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SERVICE_HOST_H_
