#include "common/http/http_names.h"

#include <arpa/inet.h>

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace bastion {
namespace {

constexpr int kMaxPort = 65535;

// Decodes percent-encodings, and in a query "+" as a space.
std::optional<std::string> Decode(absl::string_view text, bool is_query) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && is_query) {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      uint32_t byte = 0;
      if (i + 2 >= text.size() || !absl::ascii_isxdigit(text[i + 1]) ||
          !absl::ascii_isxdigit(text[i + 2]) ||
          !absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
        return std::nullopt;
      }
      decoded += static_cast<char>(byte);
      i += 2;
    }
  }
  return decoded;
}

bool IsAddress(const std::string& host) {
  in6_addr address;
  return inet_pton(AF_INET, host.c_str(), &address) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool IsUrl(absl::string_view target) {
  return absl::StartsWithIgnoreCase(target, "http://") ||
         absl::StartsWithIgnoreCase(target, "https://");
}

}  // namespace

std::optional<HttpTarget> ParseTarget(absl::string_view target) {
  HttpTarget parsed;
  if (IsUrl(target)) {
    target.remove_prefix(target.find("//") + 2);
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    parsed.host = std::string(target.substr(0, end));
    target.remove_prefix(end);
    parsed.path = "/";
  }
  if (!absl::StartsWith(target, "/") && !parsed.host) return std::nullopt;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(target, absl::MaxSplits('?', 1));
  std::optional<std::string> path = Decode(parts.first, /*is_query=*/false);
  if (!path) return std::nullopt;
  if (!path->empty()) parsed.path = *std::move(path);
  for (const absl::string_view item : absl::StrSplit(parts.second, '&', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    const std::optional<std::string> name = Decode(pair.first, /*is_query=*/true);
    std::optional<std::string> value = Decode(pair.second, /*is_query=*/true);
    if (!name || !value) return std::nullopt;
    parsed.query[*name] = *std::move(value);
  }
  return parsed;
}

std::optional<std::pair<std::string, int>> SplitHostPort(absl::string_view text) {
  absl::string_view host = text;
  absl::string_view rest;
  if (absl::ConsumePrefix(&host, "[")) {
    const size_t end = host.find(']');
    if (end == absl::string_view::npos) return std::nullopt;
    rest = host.substr(end + 1);
    host = host.substr(0, end);
  } else if (const size_t colon = host.find(':'); colon != absl::string_view::npos) {
    rest = host.substr(colon);
    host = host.substr(0, colon);
  }
  if (host.empty()) return std::nullopt;
  int port = -1;
  if (!rest.empty() && (!absl::ConsumePrefix(&rest, ":") || !absl::SimpleAtoi(rest, &port) ||
                        port < 0 || port > kMaxPort)) {
    return std::nullopt;
  }
  return std::make_pair(std::string(host), port);
}

bool IsOwnHost(absl::string_view value, const std::vector<std::string>& names) {
  const auto split = SplitHostPort(value);
  if (!split) return false;
  const std::string& host = split->first;
  return IsAddress(host) || absl::EqualsIgnoreCase(host, "localhost") ||
         std::any_of(names.begin(), names.end(), [&](const std::string& name) {
           return name == "*" || absl::EqualsIgnoreCase(host, name);
         });
}

bool IsSameOrigin(absl::string_view origin, absl::string_view host) {
  return absl::EqualsIgnoreCase(origin, absl::StrCat("http://", host)) ||
         absl::EqualsIgnoreCase(origin, absl::StrCat("https://", host));
}

}  // namespace bastion
