// HealthServer: serves the standard gRPC health checks on a port of its own, in clear text and to
// everybody. For probes that have no certificate. Nothing else is served, and calls hold no
// threads. The service name "" asks whether this process serves, and "liveness" only whether it
// works. Thread-safe.
#ifndef BASTION_COMMON_HOST_HEALTH_SERVER_H_
#define BASTION_COMMON_HOST_HEALTH_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace bastion::wire {

class HealthServer {
 public:
  // Listens on `address`, "host:port". "liveness" is healthy while `is_alive` returns true, or
  // always if it is empty. Errors: Listener::Open.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HealthServer>> Start(
      const std::string& address, std::function<bool()> is_alive = {});
  ~HealthServer();

  // Health is NOT_SERVING until SetServing(true).
  void SetServing(bool serving);
  [[nodiscard]] int port() const;

 private:
  class Impl;
  explicit HealthServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_HEALTH_SERVER_H_
