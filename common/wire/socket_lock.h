// Keeps two processes from listening on one unix socket. Without a lock, the second one would take
// the first one's place, and remove the socket of the other one when it ends. Thread-safe: no
// state.
#ifndef BASTION_COMMON_WIRE_SOCKET_LOCK_H_
#define BASTION_COMMON_WIRE_SOCKET_LOCK_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/shm/shared_segment.h"

namespace bastion::wire {

// Locks `path` + ".lock", which it creates, until the descriptor is closed or the process ends.
// ALREADY_EXISTS if another process, or this one, holds the lock. Else the system's error.
[[nodiscard]] absl::StatusOr<Descriptor> LockSocket(const std::string& path);

// The path of a gRPC address like unix:///run/x.sock or unix:x.sock; empty for other addresses.
[[nodiscard]] std::string SocketPath(const std::string& address);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SOCKET_LOCK_H_
