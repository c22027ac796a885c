#include "common/wire/descriptor_passing.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/peer_text.h"

namespace bastion::wire {
namespace {

// A packet has one (the segment) or three (the segment, the GPU memory and its counters).
constexpr size_t kMaxDescriptors = 3;

constexpr char kRefused[] = "shared memory: the peer refused to attach";

}  // namespace

absl::Status SystemError(absl::string_view what) {
  return absl::ErrnoToStatus(errno, absl::StrCat("shared memory: ", what));
}

absl::StatusOr<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("socket path '", PeerText(path), "' has ",
                                                   path.size(), " bytes; it must have 1 to ",
                                                   sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

void SetTimeouts(const Descriptor& socket, absl::Duration timeout) {
  // 0 would mean no timeout.
  const timeval limit = absl::ToTimeval(std::max(timeout, absl::Milliseconds(1)));
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

absl::Status CheckPeerUser(const Descriptor& socket, uid_t user) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return SystemError("cannot read the peer's user");
  }
  if (credentials.uid == user) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("shared memory: the peer is user ", credentials.uid, ", expected ", user));
}

absl::Status SendDescriptors(const Descriptor& socket, const std::string& text,
                             const std::vector<int>& descriptors) {
  iovec part = {const_cast<char*>(text.data()), text.size()};
  const size_t bytes = descriptors.size() * sizeof(int);
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  if (TEMP_FAILURE_RETRY(sendmsg(socket.get(), &message, MSG_NOSIGNAL)) >= 0) {
    return absl::OkStatus();
  }
  // The peer closed the connection early. Treat that as a refusal.
  if (errno == EPIPE) return absl::UnavailableError(kRefused);
  return SystemError("cannot send descriptors");
}

absl::StatusOr<Packet> ReceiveDescriptors(const Descriptor& socket, size_t count) {
  char text[kOfferTokenBytes + 1];
  iovec part = {text, sizeof text};
  alignas(cmsghdr) char control[CMSG_SPACE((kMaxDescriptors + 1) * sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t received = TEMP_FAILURE_RETRY(recvmsg(socket.get(), &message, MSG_CMSG_CLOEXEC));
  if (received < 0) return SystemError("cannot receive the peer's descriptors");
  std::vector<Descriptor> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t passed = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < passed; ++i) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof descriptor, sizeof descriptor);
      descriptors.emplace_back(descriptor);
    }
  }
  if (received == 0) return absl::UnavailableError(kRefused);
  if (descriptors.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat("shared memory: ", descriptors.size(),
                                                   " descriptors from the peer, expected ", count));
  }
  return Packet{std::string(text, received), std::move(descriptors)};
}

}  // namespace bastion::wire
