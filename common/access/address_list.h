// AddressList: IP addresses and networks, e.g. those of trusted proxies. Thread-safe: immutable.
#ifndef BASTION_COMMON_ACCESS_ADDRESS_LIST_H_
#define BASTION_COMMON_ACCESS_ADDRESS_LIST_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bastion {

// An IPv6 address, or an IPv4 address in its mapped form (::ffff:a.b.c.d).
using IpAddress = std::array<uint8_t, 16>;

// Nullopt if `text` is not an address. Ignores the interface of an IPv6 address ("%eth0").
[[nodiscard]] std::optional<IpAddress> ParseIpAddress(absl::string_view text);

class AddressList {
 public:
  AddressList() = default;
  // Items are addresses ("10.0.0.1", "2001:db8::1") or networks ("10.0.0.0/8", "2001:db8::/32").
  // INVALID_ARGUMENT names an item that is neither.
  [[nodiscard]] static absl::StatusOr<AddressList> Parse(const std::vector<std::string>& items);

  [[nodiscard]] bool Contains(const IpAddress& address) const;

 private:
  struct Network {
    IpAddress address = {};
    int bits = 0;  // How many of the address count.
  };
  std::vector<Network> networks_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_ACCESS_ADDRESS_LIST_H_
