#include "common/base/endpoint.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace bastion {
namespace {

// What the address has as its port; nullopt if it has none.
std::optional<absl::string_view> PortOf(absl::string_view endpoint) {
  if (absl::StartsWith(endpoint, "unix:") || absl::StartsWith(endpoint, "unix-abstract:")) {
    return std::nullopt;
  }
  // "dns:///host:port" and "dns://authority/host:port".
  if (const size_t slash = endpoint.rfind('/'); slash != absl::string_view::npos) {
    endpoint.remove_prefix(slash + 1);
  } else {
    for (const char* scheme : {"dns:", "ipv4:", "ipv6:"}) {
      if (absl::ConsumePrefix(&endpoint, scheme)) break;
    }
  }
  const size_t colon = endpoint.rfind(':');
  if (colon == absl::string_view::npos) return std::nullopt;
  const size_t bracket = endpoint.rfind(']');
  const bool is_ipv6 = bracket == absl::string_view::npos
                           ? std::count(endpoint.begin(), endpoint.end(), ':') > 1
                           : bracket > colon;
  if (is_ipv6) return std::nullopt;
  return endpoint.substr(colon + 1);
}

bool IsPort(absl::string_view text) {
  constexpr uint32_t kMaxPort = 65535;
  uint32_t port = 0;
  return std::all_of(text.begin(), text.end(), absl::ascii_isdigit) &&
         absl::SimpleAtoi(text, &port) && port <= kMaxPort;
}

}  // namespace

absl::Status CheckPorts(absl::string_view addresses) {
  for (const absl::string_view address : absl::StrSplit(addresses, ',')) {
    const std::optional<absl::string_view> port = PortOf(address);
    if (!port || IsPort(*port)) continue;
    return absl::InvalidArgumentError(absl::StrCat("the port of \"", address, "\" is \"", *port,
                                                   "\"; it must be a number from 0 to 65535"));
  }
  return absl::OkStatus();
}

}  // namespace bastion
