#include "common/access/address_list.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr int kBits = 128;
constexpr int kMappedBits = 96;  // The bits before an IPv4 address.

bool IsMapped(const IpAddress& address) {
  constexpr uint8_t kPrefix[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(std::begin(kPrefix), std::end(kPrefix), address.begin());
}

IpAddress FirstBits(const IpAddress& address, int bits) {
  IpAddress first = {};
  for (int i = 0; i < bits; ++i) {
    const auto byte = static_cast<size_t>(i / 8);
    first[byte] = static_cast<uint8_t>(first[byte] | (address[byte] & (0x80U >> (i % 8))));
  }
  return first;
}

}  // namespace

std::optional<IpAddress> ParseIpAddress(absl::string_view text) {
  const std::string address(text.substr(0, text.find('%')));
  IpAddress parsed = {};
  if (inet_pton(AF_INET6, address.c_str(), parsed.data()) == 1) return parsed;
  parsed[10] = parsed[11] = 0xff;
  if (inet_pton(AF_INET, address.c_str(), &parsed[kMappedBits / 8]) == 1) return parsed;
  return std::nullopt;
}

absl::StatusOr<AddressList> AddressList::Parse(const std::vector<std::string>& items) {
  AddressList list;
  for (const std::string& item : items) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits('/', 1));
    const std::optional<IpAddress> address = ParseIpAddress(parts.first);
    const int before = address && IsMapped(*address) ? kMappedBits : 0;
    int bits = kBits - before;
    const bool is_network = absl::StrContains(item, '/');
    if (!address || (is_network && (!absl::SimpleAtoi(parts.second, &bits) || bits < 0 ||
                                    bits > kBits - before))) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", item, "\" is not an IP address or network; use e.g. 10.0.0.1 or 10.0.0.0/8"));
    }
    list.networks_.push_back({FirstBits(*address, before + bits), before + bits});
  }
  return list;
}

bool AddressList::Contains(const IpAddress& address) const {
  return std::any_of(networks_.begin(), networks_.end(), [&](const Network& network) {
    return FirstBits(address, network.bits) == network.address;
  });
}

}  // namespace bastion
