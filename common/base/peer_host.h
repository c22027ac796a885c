// The host of a peer, for limits per host. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_PEER_HOST_H_
#define BASTION_COMMON_BASE_PEER_HOST_H_

#include <string>

#include "absl/strings/string_view.h"

namespace bastion {

// The host of an IP address in text form, without port and brackets: "192.0.2.1" is one host, and
// so is a whole IPv6 network of 64 bits, because one host can use all of its addresses. Empty if
// `address` is no IP address.
[[nodiscard]] std::string HostOfAddress(absl::string_view address);

// The same for a peer in the form of gRPC, e.g. "ipv4:192.0.2.1:4242" or "ipv6:%5B::1%5D:4242".
// Empty for a local socket.
[[nodiscard]] std::string HostOfPeer(absl::string_view peer);

// The same for the peer of a connected socket.
[[nodiscard]] std::string HostOfSocket(int descriptor);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_PEER_HOST_H_
