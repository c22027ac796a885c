#include "common/http/http_connections.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>

#include "absl/cleanup/cleanup.h"
#include "common/base/guarded.h"
#include "common/base/peer_host.h"

namespace bastion {
namespace {

constexpr size_t kReserve = 16;
constexpr size_t kMaxClosing = 64;
// A stage that began more recently has hardly waited: its connection makes room only if there is no
// other. So even while many clients send bodies slowly, a new client has time to send its header.
constexpr absl::Duration kFresh = absl::Milliseconds(250);

}  // namespace

HttpConnectionLimits HttpConnectionLimits::Fit(size_t max_busy, size_t descriptors) {
  HttpConnectionLimits limits;
  limits.reserve = std::clamp<size_t>(descriptors / 8, 1, kReserve);
  limits.max_closing = std::clamp<size_t>(descriptors / 8, 1, kMaxClosing);
  const size_t others = limits.reserve + limits.max_closing;
  const size_t rest = descriptors > others ? descriptors - others : 1;
  limits.max_busy = std::min(max_busy, rest);
  return limits;
}

HttpConnections::HttpConnections(HttpConnectionLimits limits) : limits_(std::move(limits)) {}

HttpConnections::~HttpConnections() {
  if (ended_event_ >= 0) close(ended_event_);
}

absl::Status HttpConnections::Prepare() {
  ended_event_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return ended_event_ >= 0 ? absl::OkStatus() : absl::ErrnoToStatus(errno, "eventfd");
}

bool HttpConnections::CanAdd() {
  MutexLock lock(&mutex_);
  return closing_ < limits_.max_closing;
}

std::string HttpConnections::LimitedHost(const HttpTransport::Socket& socket) const {
  if (limits_.max_per_host == 0) return "";
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  if (error.failed()) return "";  // The client is gone.
  const std::string text = peer.address().to_string();
  const std::optional<IpAddress> address = ParseIpAddress(text);
  return address && !limits_.trusted.Contains(*address) ? HostOfAddress(text) : "";
}

bool HttpConnections::MakeRoom(const std::string& host) {
  MutexLock lock(&mutex_);
  if (!host.empty()) {
    const auto is_same = [&](const HttpConnection& connection) {
      return !connection.closing && connection.host == host;
    };
    const auto count = std::count_if(connections_.begin(), connections_.end(), is_same);
    if (static_cast<size_t>(count) >= limits_.max_per_host) return CloseOne(is_same);
  }
  if (connections_.size() - closing_ < limits_.max_busy + limits_.reserve) return true;
  // At most max_busy connections are in the last stage, so one of the others can be closed.
  return CloseOne([](const HttpConnection&) { return true; });
}

bool HttpConnections::CloseOne(const std::function<bool(const HttpConnection&)>& counts) {
  const absl::Duration now = Clock::Real().Now();
  const auto rank = [now](const HttpConnection& connection) {
    const bool fresh = now - connection.since < kFresh;
    return std::tuple(fresh, fresh ? Stage::kIdle : connection.stage, connection.since);
  };
  HttpConnection* found = nullptr;
  for (HttpConnection& connection : connections_) {
    if (connection.closing || connection.stage == Stage::kAnswer || !counts(connection)) continue;
    if (found == nullptr || rank(connection) < rank(*found)) found = &connection;
  }
  if (found == nullptr) return false;
  found->closing = true;
  ++closing_;
  GivePlaceBack(*found);
  found->transport.ShutDown();
  return true;
}

void HttpConnections::Add(HttpTransport::Socket socket, HttpTransport::TlsContext tls,
                          const std::function<void(HttpConnection&)>& serve) {
  std::string host = LimitedHost(socket);
  if (!MakeRoom(host)) return;
  std::list<HttpConnection> added;
  HttpConnection& connection = added.emplace_back(std::move(socket), std::move(tls));
  connection.host = std::move(host);
  MutexLock lock(&mutex_);
  connections_.splice(connections_.end(), added);
  // Without memory or threads, the connection is closed.
  auto forget = absl::MakeCleanup([this] {
    mutex_.AssertHeld();
    connections_.pop_back();
  });
  connection.thread = std::thread([this, &connection, serve] {
    RunGuarded("an HTTP connection", [&] { serve(connection); });
    connection.transport.ShutDown();
    connection.ended = true;
    eventfd_write(ended_event_, 1);
  });
  std::move(forget).Cancel();
}

void HttpConnections::CleanUp() {
  eventfd_t count = 0;
  eventfd_read(ended_event_, &count);
  std::list<HttpConnection> ended;
  {
    const int64_t now = absl::ToInt64Nanoseconds(Clock::Real().Now());
    MutexLock lock(&mutex_);
    for (auto it = connections_.begin(); it != connections_.end();) {
      const auto connection = it++;
      if (connection->deadline < now) connection->transport.ShutDown();
      if (!connection->ended) continue;
      GivePlaceBack(*connection);
      if (connection->closing) --closing_;
      ended.splice(ended.end(), connections_, connection);
    }
  }
  for (HttpConnection& connection : ended) connection.thread.join();
}

void HttpConnections::Stop() {
  std::list<HttpConnection> all;
  {
    MutexLock lock(&mutex_);
    for (HttpConnection& connection : connections_) connection.transport.ShutDown();
    all.splice(all.end(), connections_);
  }
  for (HttpConnection& connection : all) connection.thread.join();
}

void HttpConnections::BeginIdle(HttpConnection& connection) {
  MutexLock lock(&mutex_);
  GivePlaceBack(connection);
  SetStage(connection, Stage::kIdle);
}

void HttpConnections::BeginRequest(HttpConnection& connection) {
  MutexLock lock(&mutex_);
  SetStage(connection, Stage::kRequest);
}

bool HttpConnections::Admit(HttpConnection& connection, bool reserved) {
  MutexLock lock(&mutex_);
  if (connection.closing) return false;
  if (!reserved) {
    const auto reads_body = [](const HttpConnection& other) {
      return other.stage == Stage::kBody && other.has_place;
    };
    if (busy_ >= limits_.max_busy && !CloseOne(reads_body)) return false;
    connection.has_place = true;
    ++busy_;
  }
  SetStage(connection, reserved ? Stage::kReserved : Stage::kBody);
  return true;
}

bool HttpConnections::BeginAnswer(HttpConnection& connection) {
  MutexLock lock(&mutex_);
  if (connection.closing) return false;
  if (connection.stage == Stage::kBody) SetStage(connection, Stage::kAnswer);
  return true;
}

void HttpConnections::BeginEnd(HttpConnection& connection) {
  MutexLock lock(&mutex_);
  GivePlaceBack(connection);
  SetStage(connection, Stage::kEnd);
}

void HttpConnections::SetStage(HttpConnection& connection, Stage stage) {
  connection.stage = stage;
  connection.since = Clock::Real().Now();
}

void HttpConnections::GivePlaceBack(HttpConnection& connection) {
  if (std::exchange(connection.has_place, false)) --busy_;
}

}  // namespace bastion
