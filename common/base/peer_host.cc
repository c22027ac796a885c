#include "common/base/peer_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/strip.h"

namespace bastion {
namespace {

constexpr size_t kNetworkBytes = 8;

std::string TextOf(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  return inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

std::string HostOf(in6_addr address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) return TextOf(AF_INET, &address.s6_addr[12]);
  std::fill(address.s6_addr + kNetworkBytes, address.s6_addr + sizeof(address.s6_addr), uint8_t{0});
  return TextOf(AF_INET6, &address);
}

}  // namespace

std::string HostOfAddress(absl::string_view address) {
  std::string text(address.substr(0, address.find('%')));  // Without a zone.
  in_addr four;
  if (inet_pton(AF_INET, text.c_str(), &four) == 1) return text;
  in6_addr six;
  return inet_pton(AF_INET6, text.c_str(), &six) == 1 ? HostOf(six) : "";
}

std::string HostOfPeer(absl::string_view peer) {
  const auto without_port = [](absl::string_view text) { return text.substr(0, text.rfind(':')); };
  if (absl::ConsumePrefix(&peer, "ipv4:")) return HostOfAddress(without_port(peer));
  if (!absl::ConsumePrefix(&peer, "ipv6:")) return "";
  peer = without_port(peer);
  // Newer versions of gRPC encode the brackets.
  if (!absl::ConsumePrefix(&peer, "%5B")) absl::ConsumePrefix(&peer, "[");
  if (!absl::ConsumeSuffix(&peer, "%5D")) absl::ConsumeSuffix(&peer, "]");
  return HostOfAddress(peer);
}

std::string HostOfSocket(int descriptor) {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  if (getpeername(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  if (address.ss_family == AF_INET) {
    return TextOf(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr);
  }
  if (address.ss_family != AF_INET6) return "";
  return HostOf(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr);
}

}  // namespace bastion
