#include "common/host/connection_table.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/clock.h"

namespace bastion::wire {
namespace {

// How often closed connections are looked for while the limit seems reached.
constexpr absl::Duration kLookInterval = absl::Milliseconds(20);

// A connection that receives fewer bytes in an interval does not open many calls.
constexpr uint64_t kFloodBytes = 4096;

// Bytes of a connection that are discarded in one step.
constexpr size_t kDiscard = size_t{1} << 20;

uint64_t Cookie(int socket) {
  uint64_t cookie = 0;
  socklen_t bytes = sizeof cookie;
  getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &bytes);
  return cookie;
}

// The bytes that a connection has received so far.
uint64_t ReceivedBytes(int socket) {
  // The first part of the kernel's tcp_info. The C library's does not have this member.
  struct {
    char others[128];
    uint64_t bytes_received;
  } info = {};
  socklen_t bytes = sizeof info;
  getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &bytes);
  return info.bytes_received;
}

// The other end's address, as in NormalPeer; empty for unix sockets.
std::string PeerOf(int socket) {
  sockaddr_storage storage = {};
  socklen_t bytes = sizeof storage;
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &bytes) != 0) return "";
  char text[INET6_ADDRSTRLEN] = {};
  if (storage.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
    return absl::StrCat("ipv4:", text, ":", ntohs(address.sin_port));
  }
  if (storage.ss_family != AF_INET6) return "";
  const auto& address = reinterpret_cast<const sockaddr_in6&>(storage);
  if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr)) {
    inet_ntop(AF_INET, &address.sin6_addr.s6_addr[12], text, sizeof text);
    return absl::StrCat("ipv4:", text, ":", ntohs(address.sin6_port));
  }
  inet_ntop(AF_INET6, &address.sin6_addr, text, sizeof text);
  return absl::StrCat("ipv6:[", text, "]:", ntohs(address.sin6_port));
}

// Counts one call. gRPC destroys it with the call.
class CallCount final : public grpc::experimental::Interceptor {
 public:
  CallCount(ConnectionTable* table, const grpc::ServerContextBase* context)
      : table_(table), context_(context) {}
  ~CallCount() override {
    if (connection_.has_value()) table_->EndCall(*connection_);
  }

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Hook = grpc::experimental::InterceptionHookPoints;
    // Earlier, the call has no peer.
    if (methods->QueryInterceptionHookPoint(Hook::POST_RECV_INITIAL_METADATA)) {
      connection_ = table_->BeginCall(context_->peer());
    }
    methods->Proceed();
  }

 private:
  ConnectionTable* const table_;
  const grpc::ServerContextBase* const context_;
  std::optional<ConnectionTable::Id> connection_;  // Nullopt: the call has not begun.
};

class CallCountFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit CallCountFactory(ConnectionTable* table) : table_(table) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    // Health checks need no right, and a client can let them last: they must not keep others out.
    if (absl::StartsWith(call->method(), "/grpc.health.")) return nullptr;
    return new CallCount(table_, call->server_context());
  }

 private:
  ConnectionTable* const table_;
};

}  // namespace

absl::Status ConnectionTable::Prepare(size_t limit) {
  limit_ = limit;
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  return epoll_.valid() ? absl::OkStatus() : absl::ErrnoToStatus(errno, "epoll");
}

ConnectionTable::Admission ConnectionTable::Admit(int descriptor) {
  Admission admission = Admission::kAdmitted;
  if (!HasPlace()) {
    if (!CloseIdlest()) return Admission::kRefused;
    admission = Admission::kAdmittedInstead;
  }
  epoll_event event = {.events = EPOLLET, .data = {}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) return Admission::kRefused;
  Connection added = {
      .cookie = Cookie(descriptor), .peer = PeerOf(descriptor), .idle_since = Clock::Real().Now()};
  MutexLock lock(&mutex_);
  Forget(descriptor);
  if (!added.peer.empty()) descriptors_[added.peer] = descriptor;
  connections_[descriptor] = std::move(added);
  return admission;
}

bool ConnectionTable::HasPlace() {
  MutexLock lock(&mutex_);
  if (connections_.size() < limit_) return true;
  if (const absl::Duration now = Clock::Real().Now(); now >= next_look_) {
    next_look_ = now + kLookInterval;
    ForgetClosed();
  }
  return connections_.size() < limit_;
}

bool ConnectionTable::IsOpen(int descriptor) const {
  // Fails if the number has no registration: it is free, or names another open file.
  epoll_event event = {.events = EPOLLET, .data = {}};
  return epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, descriptor, &event) == 0;
}

void ConnectionTable::ForgetClosed() {
  std::vector<int> closed;
  for (const auto& [descriptor, connection] : connections_) {
    if (!IsOpen(descriptor)) closed.push_back(descriptor);
  }
  for (const int descriptor : closed) Forget(descriptor);
}

void ConnectionTable::Forget(int descriptor) {
  const auto found = connections_.find(descriptor);
  if (found == connections_.end()) return;
  const auto of_peer = descriptors_.find(found->second.peer);
  if (of_peer != descriptors_.end() && of_peer->second == descriptor) descriptors_.erase(of_peer);
  connections_.erase(found);
}

ConnectionTable::Id ConnectionTable::Idlest() const {
  Id idlest;
  absl::Duration since = absl::InfiniteDuration();
  for (const auto& [descriptor, connection] : connections_) {
    if (connection.calls > 0 || connection.peer.empty() || connection.idle_since >= since) continue;
    idlest = {descriptor, connection.cookie};
    since = connection.idle_since;
  }
  return idlest;
}

void ConnectionTable::End(Id connection) {
  // gRPC may close the connection at any time, and the number may become another file's. A
  // duplicate keeps its meaning.
  const Descriptor duplicate(fcntl(connection.descriptor, F_DUPFD_CLOEXEC, 0));
  if (!duplicate.valid() || Cookie(duplicate.get()) != connection.cookie) return;
  shutdown(duplicate.get(), SHUT_RDWR);
  // What has arrived must not reach gRPC either: it may be thousands of calls.
  while (recv(duplicate.get(), nullptr, kDiscard, MSG_DONTWAIT | MSG_TRUNC) > 0) {
  }
}

bool ConnectionTable::CloseIdlest() {
  Id idlest;
  {
    MutexLock lock(&mutex_);
    idlest = Idlest();
    if (idlest.cookie == 0) return false;
  }
  End(idlest);
  const absl::Time end = SteadyNow() + kCloseLimit;
  while (IsOpen(idlest.descriptor)) {
    if (SteadyNow() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  MutexLock lock(&mutex_);
  Forget(idlest.descriptor);
  return true;
}

ConnectionTable::Id ConnectionTable::BeginCall(absl::string_view peer) {
  const std::string normal = NormalPeer(peer);
  MutexLock lock(&mutex_);
  ++calls_;
  const auto descriptor = descriptors_.find(normal);
  if (descriptor == descriptors_.end()) return {};
  Connection& connection = connections_[descriptor->second];
  ++connection.calls;
  return {descriptor->second, connection.cookie};
}

void ConnectionTable::EndCall(Id ended) {
  MutexLock lock(&mutex_);
  --calls_;
  const auto found = connections_.find(ended.descriptor);
  if (found == connections_.end() || found->second.cookie != ended.cookie) return;
  --found->second.calls;
  found->second.idle_since = Clock::Real().Now();
}

void ConnectionTable::EndAll(absl::Time deadline) {
  const auto has_calls = [this] {
    MutexLock lock(&mutex_);
    return calls_ > 0;
  };
  absl::Time last_call = SteadyNow();
  for (absl::Time now = last_call; now < deadline && now < last_call + kQuiet; now = SteadyNow()) {
    if (has_calls()) last_call = now;
    absl::SleepFor(absl::Milliseconds(1));
  }
  std::vector<Id> all;
  {
    MutexLock lock(&mutex_);
    for (const auto& [descriptor, connection] : connections_) {
      all.push_back({descriptor, connection.cookie});
    }
  }
  for (const Id id : all) End(id);
}

void ConnectionTable::CloseFloods() {
  std::vector<std::pair<Id, std::string>> talkative;
  {
    MutexLock lock(&mutex_);
    for (auto& [descriptor, connection] : connections_) {
      if (connection.peer.empty()) continue;
      const uint64_t received = ReceivedBytes(descriptor);
      const uint64_t before = std::exchange(connection.received, received);
      if (received < before + kFloodBytes) continue;
      talkative.push_back({{descriptor, connection.cookie}, connection.peer});
    }
  }
  for (const auto& [id, peer] : talkative) {
    const std::optional<int64_t> unanswered = streams_.CountUnanswered(peer);
    if (!unanswered.has_value() || !IsFlood(id, *unanswered)) continue;
    LOG(WARNING) << "closed the connection of " << peer << ": its client canceled more than "
                 << CancelBudget::kBurst << " calls, and more than " << CancelBudget::kPerSecond
                 << " per second";
    End(id);
  }
}

bool ConnectionTable::IsFlood(Id id, int64_t unanswered) {
  MutexLock lock(&mutex_);
  const auto found = connections_.find(id.descriptor);
  if (found == connections_.end() || found->second.cookie != id.cookie) return false;
  return !found->second.cancels.Allows(unanswered, Clock::Real().Now());
}

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
ConnectionTable::CallCounter() {
  return std::make_unique<CallCountFactory>(this);
}

}  // namespace bastion::wire
