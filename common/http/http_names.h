// The parts of HTTP that decide whom the server trusts: targets, Host and Origin. Thread-safe: no
// state.
#ifndef BASTION_COMMON_HTTP_HTTP_NAMES_H_
#define BASTION_COMMON_HTTP_HTTP_NAMES_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace bastion {

struct HttpTarget {
  // The host and port in a URL. It has precedence over the Host header.
  std::optional<std::string> host;
  std::string path;
  std::map<std::string, std::string> query;
};

// Parses the target of a request line: a path like "/a%20b?x=1", or a URL of http or https, which
// clients send to proxies. nullopt for another one, and if a percent-encoding is not valid.
[[nodiscard]] std::optional<HttpTarget> ParseTarget(absl::string_view target);

// Splits "host:port", "[::1]:80" or "host" into host and port (-1: none). The host has no brackets.
// nullopt if it is neither.
[[nodiscard]] std::optional<std::pair<std::string, int>> SplitHostPort(absl::string_view text);

// True if a Host header with this value names the server: its host is an IP address, "localhost",
// or one of `names`, in any case of letters. The name "*" allows all hosts.
[[nodiscard]] bool IsOwnHost(absl::string_view value, const std::vector<std::string>& names);

// True if the page of `origin` (the value of an Origin header) came from `host` (of the Host
// header).
[[nodiscard]] bool IsSameOrigin(absl::string_view origin, absl::string_view host);

}  // namespace bastion

#endif  // BASTION_COMMON_HTTP_HTTP_NAMES_H_
