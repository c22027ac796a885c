#include "tests/faults/seeded/faulty_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"

namespace bastion::testing {
namespace {

constexpr size_t kChunkBytes = 16 << 10;
constexpr size_t kMaxQueuedBytes = 1 << 20;  // Then the sender has to wait.
constexpr int kPollMilliseconds = 2;         // Bounds how late a delayed chunk is sent.

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int NewSocket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0); }

// Closes the socket so that the other side gets a reset.
void CloseWithReset(int socket) {
  const linger now = {.l_onoff = 1, .l_linger = 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  ::close(socket);
}

void SetNoDelay(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

FaultyLink::FaultyLink(int from, int to, uint64_t seed)
    : to_(to), listener_(NewSocket()), random_(seed) {
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const sockaddr_in address = Loopback(from);
  CHECK_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  CHECK_EQ(::listen(listener_, 64), 0);
  thread_ = std::thread([this] { Main(); });
}

FaultyLink::~FaultyLink() {
  stopping_.store(true);
  thread_.join();
  for (const Connection& connection : connections_) {
    for (const int socket : connection.sockets) ::close(socket);
  }
  ::close(listener_);
}

void FaultyLink::Set(const LinkFaults& faults) {
  MutexLock lock(&mutex_);
  faults_ = faults;
}

void FaultyLink::Main() {
  while (!stopping_.load()) {
    std::vector<pollfd> waits = {{.fd = listener_, .events = POLLIN, .revents = 0}};
    for (const Connection& connection : connections_) {
      for (int from = 0; from < 2; ++from) {
        // A socket that is not read stays readable. poll() ignores -1.
        const Direction& direction = connection.directions[from];
        const bool reads = !direction.ended && direction.bytes < kMaxQueuedBytes;
        const int socket = reads ? connection.sockets[from] : -1;
        waits.push_back({.fd = socket, .events = POLLIN, .revents = 0});
      }
    }
    ::poll(waits.data(), waits.size(), kPollMilliseconds);
    LinkFaults faults;
    {
      MutexLock lock(&mutex_);
      faults = faults_;
    }
    const bool reset = reset_.exchange(false);
    // What is readable stays readable, so poll() does not wait.
    if (faults.cut || faults.deaf) ::poll(nullptr, 0, kPollMilliseconds);
    if (faults.cut && !reset) continue;
    if (!faults.cut) Accept();
    for (auto i = connections_.begin(); i != connections_.end();) {
      if (!reset && !faults.cut) Relay(*i, faults);
      if (reset || i->broken) {
        hits_.fetch_add(reset ? 1 : 0);
        for (const int socket : i->sockets) CloseWithReset(socket);
        i = connections_.erase(i);
      } else {
        ++i;
      }
    }
  }
}

void FaultyLink::Accept() {
  const int from = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (from < 0) return;
  const int to = NewSocket();
  const sockaddr_in address = Loopback(to_);
  // On the loopback interface, it connects at once or is refused.
  if (::connect(to, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno != EINPROGRESS) {
    ::close(to);
    CloseWithReset(from);
    return;
  }
  SetNoDelay(from);
  SetNoDelay(to);
  connections_.push_back({.sockets = {from, to}, .directions = {}});
}

bool FaultyLink::Happens(double probability) {
  if (probability <= 0 || std::uniform_real_distribution<>()(random_) >= probability) return false;
  hits_.fetch_add(1);
  return true;
}

void FaultyLink::Relay(Connection& connection, const LinkFaults& faults) {
  for (int from = 0; from < 2 && !connection.broken; ++from) {
    if (from == 0 || !faults.deaf) Read(connection, from, faults);
  }
  for (int from = 0; from < 2 && !connection.broken; ++from) Write(connection, from);
  const auto done = [](const Direction& direction) {
    return direction.ended && direction.chunks.empty();
  };
  if (done(connection.directions[0]) && done(connection.directions[1])) connection.broken = true;
}

void FaultyLink::Read(Connection& connection, int from, const LinkFaults& faults) {
  Direction& direction = connection.directions[from];
  while (!direction.ended && direction.bytes < kMaxQueuedBytes) {
    char buffer[kChunkBytes];
    const ssize_t count = ::recv(connection.sockets[from], buffer, sizeof(buffer), 0);
    if (count < 0) {
      connection.broken = errno != EAGAIN && errno != EWOULDBLOCK;
      return;
    }
    if (count == 0) {
      direction.ended = true;
      return;
    }
    std::string bytes(buffer, static_cast<size_t>(count));
    absl::Duration due = Clock::Real().Now() + faults.delay;
    if (faults.delay > absl::ZeroDuration()) hits_.fetch_add(1);
    if (Happens(faults.loss)) due += kRetransmission;
    // Later bytes wait for those that were lost.
    if (!direction.chunks.empty()) due = std::max(due, direction.chunks.back().due);
    if (Happens(faults.corruption)) {
      bytes[random_() % bytes.size()] ^= static_cast<char>(1 << random_() % 8);
    }
    if (Happens(faults.truncation)) {
      bytes.resize(bytes.size() / 2);
      // Both directions end once these bytes are sent.
      connection.directions[0].ended = connection.directions[1].ended = true;
    }
    direction.bytes += bytes.size();
    direction.chunks.push_back({.due = due, .bytes = std::move(bytes)});
  }
}

void FaultyLink::Write(Connection& connection, int from) {
  Direction& direction = connection.directions[from];
  const int to = connection.sockets[1 - from];
  while (!direction.chunks.empty() && direction.chunks.front().due <= Clock::Real().Now()) {
    std::string& bytes = direction.chunks.front().bytes;
    const ssize_t count = bytes.empty() ? 0 : ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count < 0) {
      connection.broken = errno != EAGAIN && errno != EWOULDBLOCK;
      return;
    }
    direction.bytes -= static_cast<size_t>(count);
    bytes.erase(0, static_cast<size_t>(count));
    if (!bytes.empty()) return;
    direction.chunks.pop_front();
  }
  if (direction.ended && direction.chunks.empty()) ::shutdown(to, SHUT_WR);
  if (direction.ended && direction.chunks.empty()) ::shutdown(to, SHUT_WR);
}

}  // namespace bastion::testing
