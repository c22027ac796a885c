// Keeps two processes from listening on one unix socket. Without a lock, the second one would take
// the first one's place, and remove the socket of the other one when it ends.
#ifndef BASTION_COMMON_WIRE_SOCKET_LOCK_H_
#define BASTION_COMMON_WIRE_SOCKET_LOCK_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/shm/shared_segment.h"

namespace bastion::wire {

// Thread-compatible.
class SocketLock {
 public:
  SocketLock() = default;  // Locks nothing.
  // Locks PATH.lock, which it creates. ALREADY_EXISTS if another object, here or in another
  // process, holds the lock. Else the system's error.
  [[nodiscard]] static absl::StatusOr<SocketLock> Lock(const std::string& path);
  // Releases the lock and removes the file.
  ~SocketLock();
  SocketLock(SocketLock&& other) noexcept
      : name_(std::exchange(other.name_, {})), file_(std::move(other.file_)) {}
  SocketLock& operator=(SocketLock&& other) noexcept {
    std::swap(name_, other.name_);
    std::swap(file_, other.file_);
    return *this;
  }

 private:
  SocketLock(std::string name, Descriptor file) : name_(std::move(name)), file_(std::move(file)) {}

  std::string name_;  // Empty: nothing is locked.
  Descriptor file_;
};

// The path of a gRPC address like unix:///run/x.sock or unix:x.sock; empty for other addresses.
[[nodiscard]] std::string SocketPath(const std::string& address);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SOCKET_LOCK_H_
