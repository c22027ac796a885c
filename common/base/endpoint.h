// Checks addresses that flags name. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_ENDPOINT_H_
#define BASTION_COMMON_BASE_ENDPOINT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace bastion {

// INVALID_ARGUMENT if an address has a port that is not a number from 0 to 65535: libraries would
// use another port (its last 16 bits) instead, or fail much later. The addresses are separated by
// commas; each is "host:port", "[ipv6]:port" or a unix socket, also with a scheme of gRPC. Hosts
// are not checked, and a port may be missing.
[[nodiscard]] absl::Status CheckPorts(absl::string_view addresses);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_ENDPOINT_H_
