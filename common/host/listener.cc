#include "common/host/listener.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/descriptors.h"
#include "common/base/endpoint.h"
#include "common/base/guarded.h"
#include "common/base/status.h"
#include "common/wire/descriptor_passing.h"

namespace bastion::wire {
namespace {

// What an event of the epoll descriptor is about; smaller numbers are indices of sockets.
constexpr uint64_t kStop = std::numeric_limits<uint64_t>::max();

// How long the listener waits when it cannot even refuse connections.
constexpr absl::Duration kPause = absl::Milliseconds(50);
constexpr absl::Duration kLogInterval = absl::Seconds(1);

struct HostAndPort {
  std::string host;  // Empty: all addresses of this machine.
  std::string port;
};

// Parses "host:port", "[ipv6]:port", and both with a scheme of gRPC.
absl::StatusOr<HostAndPort> ParseTcp(absl::string_view address) {
  RETURN_IF_ERROR(CheckPorts(address));
  for (const char* scheme : {"ipv4:", "ipv6:", "dns:///", "dns:"}) {
    if (absl::ConsumePrefix(&address, scheme)) break;
  }
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos || absl::StartsWith(address, "unix")) {
    return absl::InvalidArgumentError("use host:port or unix:///path");
  }
  absl::string_view host = address.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  return HostAndPort{std::string(host), std::string(address.substr(colon + 1))};
}

void SetOption(const Descriptor& socket, int level, int option, int value) {
  setsockopt(socket.get(), level, option, &value, sizeof value);
}

// Connections inherit these.
void SetTcpOptions(const Descriptor& socket, const ConnectionLimits& limits) {
  SetOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  // A peer that does not acknowledge data is gone as soon as one that does not answer pings.
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT,
            static_cast<int>(absl::ToInt64Milliseconds(limits.keepalive_timeout)));
}

// The port that `socket` is bound to.
in_port_t BoundPort(const Descriptor& socket) {
  sockaddr_storage bound = {};
  socklen_t bytes = sizeof bound;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&bound), &bytes);
  return bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                     : reinterpret_cast<const sockaddr_in&>(bound).sin_port;
}

bool IsSame(const addrinfo& a, const addrinfo& b) {
  if (a.ai_family != b.ai_family) return false;
  if (a.ai_family != AF_INET6) {
    return reinterpret_cast<const sockaddr_in*>(a.ai_addr)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b.ai_addr)->sin_addr.s_addr;
  }
  const auto* const first = reinterpret_cast<const sockaddr_in6*>(a.ai_addr);
  const auto* const second = reinterpret_cast<const sockaddr_in6*>(b.ai_addr);
  return IN6_ARE_ADDR_EQUAL(&first->sin6_addr, &second->sin6_addr) &&
         first->sin6_scope_id == second->sin6_scope_id;
}

// True if an earlier entry of the list has the same address. /etc/hosts may name a host twice.
bool IsRepeated(const addrinfo* first, const addrinfo* found) {
  for (; first != found; first = first->ai_next) {
    if (IsSame(*first, *found)) return true;
  }
  return false;
}

void SetPort(in_port_t port, sockaddr* address) {
  if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = port;
  } else {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = port;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const std::vector<std::string>& addresses,
                                                         const ConnectionLimits& limits,
                                                         std::function<void()> on_refused) {
  auto listener = std::unique_ptr<Listener>(new Listener(limits, std::move(on_refused)));
  for (size_t i = 0; i < addresses.size(); ++i) {
    const absl::Status opened = listener->OpenAddress(addresses[i], i);
    if (opened.ok()) continue;
    return absl::UnavailableError(absl::StrCat(
        "cannot listen on ", addresses[i], ": ", opened.message(),
        "; check that no other process uses the address, and that this user may use it"));
  }
  RETURN_IF_ERROR(listener->PrepareToAccept());
  return listener;
}

Listener::~Listener() { Stop(); }

absl::Status Listener::OpenAddress(const std::string& address, size_t index) {
  const std::string path = SocketPath(address);
  return path.empty() ? OpenTcp(address, index) : OpenUnix(path, index);
}

absl::Status Listener::OpenUnix(const std::string& path, size_t index) {
  ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(path));
  Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return absl::ErrnoToStatus(errno, "socket");
  ASSIGN_OR_RETURN(SocketLock lock, SocketLock::Lock(path));
  // A process that was killed leaves its socket behind.
  struct stat old {};
  if (lstat(path.c_str(), &old) == 0 && S_ISSOCK(old.st_mode)) unlink(path.c_str());
  // bind() gives the file this mode, whatever the umask allows.
  if (fchmod(socket.get(), 0600) != 0) return absl::ErrnoToStatus(errno, "fchmod");
  const int error = Listen(std::move(socket), &address, sizeof address, index);
  if (error != 0) return absl::ErrnoToStatus(error, "bind");
  unix_sockets_.push_back({path, std::move(lock)});
  return absl::OkStatus();
}

absl::Status Listener::OpenTcp(const std::string& address, size_t index) {
  ASSIGN_OR_RETURN(const HostAndPort parsed, ParseTcp(address));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* results = nullptr;
  const char* const host = parsed.host.empty() ? nullptr : parsed.host.c_str();
  const int failed = getaddrinfo(host, parsed.port.c_str(), &hints, &results);
  if (failed != 0) return absl::UnavailableError(gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(results, &freeaddrinfo);
  absl::Status status = absl::UnavailableError("the host has no address");
  in_port_t port = 0;  // The first address of the host has this port. The others use it too.
  for (addrinfo* found = results; found != nullptr; found = found->ai_next) {
    if (IsRepeated(results, found)) continue;
    Descriptor socket(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!socket.valid()) {
      status = absl::ErrnoToStatus(errno, "socket");
      if (errno == EAFNOSUPPORT) continue;  // This machine has no such protocol.
      return status;
    }
    SetTcpOptions(socket, limits_);
    if (found->ai_family == AF_INET6) {
      SetOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, results->ai_next != nullptr ? 1 : 0);
    }
    if (port != 0) SetPort(port, found->ai_addr);
    const int error = Listen(std::move(socket), found->ai_addr, found->ai_addrlen, index);
    if (error == 0 && port == 0) port = BoundPort(sockets_.back().descriptor);
    // A name like localhost may have an IPv6 address on a machine without IPv6.
    if (error != 0) status = absl::ErrnoToStatus(error, "bind");
    if (error != 0 && error != EADDRNOTAVAIL) return status;
  }
  if (port == 0) return status;
  if (port_ == 0) port_ = ntohs(port);
  return absl::OkStatus();
}

int Listener::Listen(Descriptor descriptor, const void* address, size_t bytes, size_t index) {
  if (bind(descriptor.get(), static_cast<const sockaddr*>(address),
           static_cast<socklen_t>(bytes)) != 0 ||
      listen(descriptor.get(), SOMAXCONN) != 0) {
    return errno;
  }
  sockets_.push_back({std::move(descriptor), index});
  return 0;
}

absl::Status Listener::PrepareToAccept() {
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  stop_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  spare_ = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!epoll_.valid() || !stop_.valid() || !spare_.valid())
    return absl::ErrnoToStatus(errno, "epoll");
  const auto watch = [this](const Descriptor& descriptor, uint64_t what) {
    epoll_event event = {EPOLLIN, {.u64 = what}};
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor.get(), &event) == 0;
  };
  bool watched = watch(stop_, kStop);
  for (size_t i = 0; i < sockets_.size(); ++i) watched &= watch(sockets_[i].descriptor, i);
  if (!watched) return absl::ErrnoToStatus(errno, "epoll_ctl");
  ASSIGN_OR_RETURN(const size_t descriptors, FreeDescriptors());
  return connections_.Prepare(
      std::min(static_cast<size_t>(limits_.max_connections), GrpcDescriptors(descriptors)));
}

void Listener::AddTo(grpc::ServerBuilder& builder,
                     std::shared_ptr<grpc::ServerCredentials> credentials) {
  using Type = grpc::ServerBuilder::experimental_type::ExternalConnectionType;
  acceptors_.push_back(
      builder.experimental().AddExternalConnectionAcceptor(Type::FROM_FD, std::move(credentials)));
}

void Listener::Start() {
  thread_ = std::thread([this] { Main(); });
}

void Listener::Stop(absl::Time deadline) {
  if (thread_.joinable()) {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  sockets_.clear();
  for (const UnixSocket& socket : unix_sockets_) unlink(socket.path.c_str());
  unix_sockets_.clear();
  connections_.EndAll(deadline);
}

void Listener::Main() {
  const auto tick = static_cast<int>(absl::ToInt64Milliseconds(ConnectionTable::kFloodInterval));
  for (;;) {
    CloseFloods();
    epoll_event event = {};
    if (epoll_wait(epoll_.get(), &event, 1, tick) < 1) continue;
    if (event.data.u64 == kStop) return;
    const Socket& socket = sockets_[event.data.u64];
    if (!RunGuarded("accepting a connection", [&] { Accept(socket); })) Pause();
  }
}

void Listener::CloseFloods() {
  const absl::Duration now = Clock::Real().Now();
  if (now < next_flood_check_) return;
  next_flood_check_ = now + ConnectionTable::kFloodInterval;
  (void)RunGuarded("looking for floods", [this] { connections_.CloseFloods(); });
}

void Listener::Accept(const Socket& socket) {
  Descriptor connection(
      accept4(socket.descriptor.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!connection.valid()) {
    if (errno == EMFILE || errno == ENFILE) return RefuseWithSpare(socket);
    if (errno == ENOBUFS || errno == ENOMEM) Pause();
    return;  // Other errors are those of a connection that is gone.
  }
  const ConnectionTable::Admission admission = connections_.Admit(connection.get());
  if (admission != ConnectionTable::Admission::kAdmitted) CountClosed();
  if (admission == ConnectionTable::Admission::kRefused) return;
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = socket.descriptor.get();
  parameters.fd = connection.Release();
  acceptors_[socket.address]->HandleNewConnection(&parameters);
}

void Listener::RefuseWithSpare(const Socket& socket) {
  spare_ = Descriptor();
  const int connection = accept4(socket.descriptor.get(), nullptr, nullptr, SOCK_CLOEXEC);
  if (connection >= 0) {
    close(connection);
    CountClosed();
  }
  spare_ = Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
  // Another thread may have taken the descriptor.
  if (connection < 0 || !spare_.valid()) Pause();
}

void Listener::CountClosed() {
  ++closed_;
  if (on_refused_) on_refused_();
  const absl::Duration now = Clock::Real().Now();
  if (now < next_log_) return;
  next_log_ = now + kLogInterval;
  LOG(WARNING) << "connections refused, or closed while idle: " << std::exchange(closed_, 0)
               << "; at most " << connections_.limit()
               << " may be open (--max_connections, and the limit on descriptors)";
}

void Listener::Pause() const {
  pollfd stop = {stop_.get(), POLLIN, 0};
  poll(&stop, 1, static_cast<int>(absl::ToInt64Milliseconds(kPause)));
}

}  // namespace bastion::wire
