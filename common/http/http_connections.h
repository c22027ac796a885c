// HttpConnections: the open connections of an HTTP server, limited in number. Internal to
// common/http.
//
// A client that is slow or silent cannot keep others out: if there are too many connections, a
// newcomer replaces the one that has been idle longest, or else the one that has waited longest for
// its client. A request needs one of max_busy places while it is read and answered. Up to `reserve`
// more connections may be open, and requests of reserved routes need no place, so they are answered
// even while all places are taken.
//
// The listener's thread adds and joins connections. Each connection's thread reports what its own
// connection does.
#ifndef BASTION_COMMON_HTTP_HTTP_CONNECTIONS_H_
#define BASTION_COMMON_HTTP_HTTP_CONNECTIONS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/access/address_list.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/http/http_transport.h"

namespace bastion {

// Its own thread uses the socket. Other threads only shut the socket down, which ends the call that
// waits.
struct HttpConnection {
  // What the connection does. If there are too many, those in earlier stages are closed first.
  enum class Stage {
    kIdle,      // Waits for the next request.
    kRequest,   // Waits for the first request, or for the rest of a header.
    kEnd,       // Waits for the client to close.
    kBody,      // Reads the body of a request.
    kReserved,  // Reads and answers a request of a reserved route.
    kAnswer,    // Answers a request. Never closed to make room.
  };

  HttpConnection(HttpTransport::Socket accepted, HttpTransport::TlsContext tls)
      : transport(std::move(accepted), std::move(tls)) {}

  void SetDeadline(absl::Duration timeout) {
    deadline = absl::ToInt64Nanoseconds(Clock::Real().Now() + timeout);
  }
  void ClearDeadline() { deadline = std::numeric_limits<int64_t>::max(); }

  HttpTransport transport;
  std::atomic<int64_t> deadline{std::numeric_limits<int64_t>::max()};  // Nanoseconds, Clock::Real.
  std::atomic<bool> ended{false};
  std::thread thread;

  // The rest belongs to HttpConnections.
  std::string host;  // Whose limit it counts for (HostOfAddress). Empty: none.
  Stage stage = Stage::kRequest;
  absl::Duration since = Clock::Real().Now();  // When the stage began.
  bool has_place = false;
  bool closing = false;  // It was shut down to make room, and counts no longer.
};

struct HttpConnectionLimits {
  size_t max_busy = 0;
  size_t reserve = 0;
  size_t max_closing = 0;    // Connections that were shut down and whose threads still run.
  size_t max_per_host = 0;   // See HostOfAddress. 0: no limit.
  AddressList trusted = {};  // Addresses to which max_per_host does not apply.

  // Limits for `max_busy` requests, or fewer, with at most `descriptors` connections.
  [[nodiscard]] static HttpConnectionLimits Fit(size_t max_busy, size_t descriptors);
};

class HttpConnections {
 public:
  using Stage = HttpConnection::Stage;

  explicit HttpConnections(HttpConnectionLimits limits);
  ~HttpConnections();
  HttpConnections(const HttpConnections&) = delete;
  HttpConnections& operator=(const HttpConnections&) = delete;
  // The system's error if there is no descriptor. Call it before anything else.
  [[nodiscard]] absl::Status Prepare();

  // Becomes readable when a connection ends.
  [[nodiscard]] int ended_event() const { return ended_event_; }
  // False while too many of the connections that were closed have not ended. Wait for
  // ended_event() then.
  [[nodiscard]] bool CanAdd() ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes room for a connection, and starts a thread that calls `serve`. Closes the connection
  // instead if its address has too many and none of them waits for its client.
  void Add(HttpTransport::Socket socket, HttpTransport::TlsContext tls,
           const std::function<void(HttpConnection&)>& serve) ABSL_LOCKS_EXCLUDED(mutex_);
  // Shuts connections down whose deadline has passed, and joins the threads of those that ended.
  void CleanUp() ABSL_LOCKS_EXCLUDED(mutex_);
  // Shuts all down and joins their threads.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);

  // The connection waits for the next request. Gives its place back.
  void BeginIdle(HttpConnection& connection) ABSL_LOCKS_EXCLUDED(mutex_);
  // The first bytes of the next request have arrived.
  void BeginRequest(HttpConnection& connection) ABSL_LOCKS_EXCLUDED(mutex_);
  // The header of a request has been read. False if the request needs a place (`reserved` is false)
  // and none is free: the longest body that is being read makes room, but no answer does.
  [[nodiscard]] bool Admit(HttpConnection& connection, bool reserved) ABSL_LOCKS_EXCLUDED(mutex_);
  // The body of an admitted request has been read. False if the connection was closed meanwhile.
  [[nodiscard]] bool BeginAnswer(HttpConnection& connection) ABSL_LOCKS_EXCLUDED(mutex_);
  // The server has sent its last response. Gives the place back.
  void BeginEnd(HttpConnection& connection) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void SetStage(HttpConnection& connection, Stage stage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GivePlaceBack(HttpConnection& connection) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Closes the connection that has waited longest in the earliest stage, among those that `counts`
  // is true for. One whose stage has just begun comes last. False if there is none.
  bool CloseOne(const std::function<bool(const HttpConnection&)>& counts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes room for a connection of `host`. False if it has too many.
  bool MakeRoom(const std::string& host) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whose limit a connection of this socket counts for. Empty: none.
  [[nodiscard]] std::string LimitedHost(const HttpTransport::Socket& socket) const;

  const HttpConnectionLimits limits_;
  int ended_event_ = -1;
  Mutex mutex_;
  std::list<HttpConnection> connections_ ABSL_GUARDED_BY(mutex_);
  size_t busy_ ABSL_GUARDED_BY(mutex_) = 0;     // Connections with a place.
  size_t closing_ ABSL_GUARDED_BY(mutex_) = 0;  // Connections that are closing.
};

}  // namespace bastion

#endif  // BASTION_COMMON_HTTP_HTTP_CONNECTIONS_H_
