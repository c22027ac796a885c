// What every service's main needs around its gRPC services: listen, health, reflection, a bound on
// threads, and an orderly end on SIGTERM or SIGINT.
#ifndef BASTION_COMMON_WIRE_SERVICE_HOST_H_
#define BASTION_COMMON_WIRE_SERVICE_HOST_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace bastion::wire {

struct HostOptions {
  // gRPC addresses: "unix:///run/bastion/verifier.sock", "127.0.0.1:7070".
  std::vector<std::string> addresses;
  int max_threads = 64;  // Concurrent calls; more wait.
  int max_message_bytes = 16 << 20;
  bool reflection = true;
};

class ServiceHost {
 public:
  // Starts serving `services`, which must outlive the host. UNAVAILABLE when an address cannot be
  // had (the message names it). Health is NOT_SERVING until SetServing(true).
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(
      const HostOptions& options, const std::vector<grpc::Service*>& services);
  ~ServiceHost();

  void SetServing(bool serving);

  // Refuses new calls, gives running ones `grace`, then cancels them. Returns when all have ended.
  void Shutdown(absl::Duration grace);

  // The port that was bound for the first TCP address (for ":0" in tests); 0 for sockets.
  [[nodiscard]] int port() const { return port_; }

 private:
  ServiceHost() = default;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

// Blocks SIGTERM and SIGINT in this thread and those it starts. Call first in main.
void BlockStopSignals();
// Waits for SIGTERM or SIGINT and returns its name.
[[nodiscard]] std::string WaitForStopSignal();

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SERVICE_HOST_H_
