// Unix-socket helpers for the attach handshake (attach_server.h). A packet carries a string and
// file descriptors. Thread-safe: no state.
#ifndef BASTION_COMMON_WIRE_DESCRIPTOR_PASSING_H_
#define BASTION_COMMON_WIRE_DESCRIPTOR_PASSING_H_

#include <sys/types.h>
#include <sys/un.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/shm/shared_segment.h"

namespace bastion::wire {

// Both sides of the handshake use these limits. The token is the secret that identifies an offer
// (attach_server.h).
inline constexpr size_t kOfferTokenBytes = 32;
// Maximum time from an offer to the end of its handshake.
inline constexpr absl::Duration kOfferLifetime = absl::Seconds(10);
// Maximum time for each message of a handshake.
inline constexpr absl::Duration kHandshakeTimeout = absl::Seconds(2);

// Returns the error of the system call that just failed, from errno. `what` names the call or its
// argument.
[[nodiscard]] absl::Status SystemError(absl::string_view what);

// INVALID_ARGUMENT if `path` is empty or too long for a socket address.
[[nodiscard]] absl::StatusOr<sockaddr_un> SocketAddress(const std::string& path);

// Sets the timeout of every later send and receive on `socket`.
void SetTimeouts(const Descriptor& socket, absl::Duration timeout);

// PERMISSION_DENIED unless the peer's process runs as `user`.
[[nodiscard]] absl::Status CheckPeerUser(const Descriptor& socket, uid_t user);

// Sends `text` and `descriptors` (1 to 3) as one packet. UNAVAILABLE if the peer closed the
// connection.
[[nodiscard]] absl::Status SendDescriptors(const Descriptor& socket, const std::string& text,
                                           const std::vector<int>& descriptors);

struct Packet {
  std::string text;  // At most kOfferTokenBytes + 1 bytes.
  std::vector<Descriptor> descriptors;
};
// Receives one packet. UNAVAILABLE if the peer closed the connection, INVALID_ARGUMENT unless the
// packet has exactly `count` descriptors.
[[nodiscard]] absl::StatusOr<Packet> ReceiveDescriptors(const Descriptor& socket, size_t count);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_DESCRIPTOR_PASSING_H_
