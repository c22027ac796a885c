// ConnectionTable: the open connections of a gRPC server, limited in number. When the limit is
// reached, the connection that has been without calls for longest is closed, so that idle clients
// cannot keep others out. Connections with calls other than health checks stay, and so do those
// over unix sockets, which belong to this user.
//
// A connection is also closed if its client cancels too many calls (CancelBudget). Only connections
// that receive much are looked at closely, so the check costs next to nothing.
//
// gRPC 1.51 does not report when it closes a connection. The table finds out by itself: it
// registers every connection with an epoll descriptor, and the kernel drops the registration when
// gRPC closes the connection. While the limit seems reached, the table checks which registrations
// are left.
//
// Admit is for one thread. All else is thread-safe.
#ifndef BASTION_COMMON_HOST_CONNECTION_TABLE_H_
#define BASTION_COMMON_HOST_CONNECTION_TABLE_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/host/cancel_budget.h"
#include "common/host/stream_counts.h"
#include "common/shm/shared_segment.h"

namespace bastion::wire {

class ConnectionTable {
 public:
  enum class Admission {
    kAdmitted,
    kAdmittedInstead,  // Another connection was closed.
    kRefused,
  };

  // REQUIRES: Prepare() before anything else.
  ConnectionTable() = default;
  // The system's error if there is no descriptor. REQUIRES: limit >= 1.
  [[nodiscard]] absl::Status Prepare(size_t limit);
  [[nodiscard]] size_t limit() const { return limit_; }

  // Counts a connection that is about to be handed to gRPC. May wait until gRPC has closed another
  // one, for at most kCloseLimit.
  [[nodiscard]] Admission Admit(int descriptor) ABSL_LOCKS_EXCLUDED(mutex_);

  // Closes the connections whose clients cancel too many calls. Call it once per kFloodInterval, on
  // the thread of Admit.
  static constexpr absl::Duration kFloodInterval = absl::Milliseconds(100);
  void CloseFloods() ABSL_LOCKS_EXCLUDED(mutex_);

  // Ends all connections as soon as no call has run for a moment, or at `deadline`. Call it before
  // the server shuts down: gRPC resets calls that arrive after that, and their clients see
  // CANCELLED. So they see UNAVAILABLE. REQUIRES: no more calls of Admit.
  void EndAll(absl::Time deadline) ABSL_LOCKS_EXCLUDED(mutex_);

  // Counts the calls of all connections, as an interceptor of the server. The table must outlive
  // the server.
  [[nodiscard]] std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
  CallCounter();

  // Names a connection, also after its descriptor was closed and the number used again.
  struct Id {
    int descriptor = -1;
    uint64_t cookie = 0;  // The kernel's name of the socket, which is never used twice.
  };
  // A call of the connection with this address of gRPC, such as "ipv4:10.0.0.1:5000", has begun.
  // Returns Id() if the table does not know the connection. REQUIRES: one call of EndCall follows.
  [[nodiscard]] Id BeginCall(absl::string_view peer) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndCall(Id ended) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // How long gRPC may take to close a connection. A machine under load may need seconds.
  static constexpr absl::Duration kCloseLimit = absl::Seconds(2);
  // How long after the last call gRPC may take to send its end.
  static constexpr absl::Duration kQuiet = absl::Milliseconds(10);

  struct Connection {
    uint64_t cookie = 0;
    std::string peer;  // Empty: never closed by the table.
    int calls = 0;
    absl::Duration idle_since;  // On Clock::Real(). When it was accepted, or its last call ended.
    uint64_t received = 0;      // Bytes, at the last CloseFloods.
    CancelBudget cancels = {};
  };

  // False if gRPC has closed the connection.
  [[nodiscard]] bool IsOpen(int descriptor) const;
  void ForgetClosed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(int descriptor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The connection that has been without calls for longest; Id() if there is none.
  [[nodiscard]] Id Idlest() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the client of a connection has canceled too many calls. See CancelBudget::Allows.
  [[nodiscard]] bool IsFlood(Id id, int64_t unanswered) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends a connection, unless its descriptor means another one by now.
  static void End(Id connection);
  // Ends the idlest connection, and waits until gRPC has closed it. False if there is none.
  [[nodiscard]] bool CloseIdlest() ABSL_LOCKS_EXCLUDED(mutex_);
  [[nodiscard]] bool HasPlace() ABSL_LOCKS_EXCLUDED(mutex_);

  size_t limit_ = 0;
  Descriptor epoll_;
  absl::Duration next_look_;  // On Clock::Real(). Used by Admit only.
  StreamCounts streams_;      // Used by CloseFloods only.
  Mutex mutex_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;  // Those of all connections.
  // By descriptor: the connections that were open when last looked at, and new ones. gRPC owns the
  // descriptors, so a number may mean another file by now.
  absl::flat_hash_map<int, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, int> descriptors_ ABSL_GUARDED_BY(mutex_);  // By peer.
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_CONNECTION_TABLE_H_
