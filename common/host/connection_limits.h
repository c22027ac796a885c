// ConnectionLimits: what a gRPC server allows the connections of its clients. Thread-safe: no
// state.
#ifndef BASTION_COMMON_HOST_CONNECTION_LIMITS_H_
#define BASTION_COMMON_HOST_CONNECTION_LIMITS_H_

#include <grpcpp/grpcpp.h>

#include <cstddef>

#include "absl/time/time.h"

namespace bastion::wire {

struct ConnectionLimits {
  // Further connections are closed at once. The listener lowers it to three quarters of the
  // descriptors that are free when it starts.
  int max_connections = 4096;
  // A peer that does not answer a ping in time is gone. Pings are sent while nothing is received.
  absl::Duration keepalive = absl::Seconds(20);
  absl::Duration keepalive_timeout = absl::Seconds(10);
  // How long a client may take to set up its connection.
  absl::Duration handshake = absl::Seconds(10);
  int max_streams = 0;  // Calls of one connection at a time. Further calls wait. 0: no limit.
  // A connection without calls is closed after this time.
  absl::Duration max_idle = absl::InfiniteDuration();
  // After this time, a connection takes no new calls, so that clients connect again and spread
  // over the replicas. Its calls may go on for max_age_grace.
  absl::Duration max_age = absl::InfiniteDuration();
  absl::Duration max_age_grace = absl::Hours(24);
  size_t max_buffer_bytes = 0;  // Limits gRPC's own memory for all connections. 0: no limit.
};

// Lowers the times of keepalive so that a client that is gone is noticed within `patience`. No
// lower than a second each, which a live client may need to answer.
void SetKeepaliveWithin(absl::Duration patience, ConnectionLimits& limits);

void SetConnectionLimits(const ConnectionLimits& limits, grpc::ResourceQuota& quota,
                         grpc::ServerBuilder& builder);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_CONNECTION_LIMITS_H_
