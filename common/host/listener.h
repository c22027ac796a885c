// Listener: accepts the connections of a gRPC server, and limits their number.
//
// gRPC 1.51 can listen itself, but it never accepts again once descriptors have run out
// (CVE-2023-4785), and it takes any number of connections. This listener hands accepted sockets to
// the server.
//
// While the limit is reached, a new connection replaces an idle one, or is refused if there is none
// (ConnectionTable). Connections that are flooded with calls are closed.
//
// If descriptors run out all the same, a spare one is used to accept and close connections, so that
// clients learn at once that they are refused. One thread per listener. Thread-compatible.
#ifndef BASTION_COMMON_HOST_LISTENER_H_
#define BASTION_COMMON_HOST_LISTENER_H_

#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/host/connection_limits.h"
#include "common/host/connection_table.h"
#include "common/shm/shared_segment.h"
#include "common/wire/socket_lock.h"

namespace bastion::wire {

class Listener {
 public:
  // Listens on `addresses`: "host:port", "unix:///path". Connections wait until Start(). Only this
  // user may connect to a unix socket. A host name means all its addresses; "[::]" includes
  // IPv4. UNAVAILABLE, with the address, if one cannot be used; a unix socket of another live
  // process is not taken over. The system's error if there are no descriptors to wait with.
  // `on_refused`, unless empty, is called on the listener's thread for each connection that is
  // closed because of a limit.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Listener>> Open(
      const std::vector<std::string>& addresses, const ConnectionLimits& limits,
      std::function<void()> on_refused = {});
  // Stops, and removes the unix sockets.
  ~Listener();

  // Adds the next address, in the order of Open, to a server. Without the CallCounter(), all
  // connections count as idle. REQUIRES: one call per address before the server is built.
  void AddTo(grpc::ServerBuilder& builder, std::shared_ptr<grpc::ServerCredentials> credentials);
  // An interceptor for the server. The listener must outlive the server.
  [[nodiscard]] std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
  CallCounter() {
    return connections_.CallCounter();
  }
  // Begins to accept. REQUIRES: the server has started.
  void Start();
  // Closes the ports, and ends the connections as soon as no call runs, or at `deadline`. Call it
  // before the server shuts down.
  void Stop(absl::Time deadline = absl::InfinitePast());

  // The port of the first TCP address; 0 if there is none.
  [[nodiscard]] int port() const { return port_; }
  // How many connections may be open at a time.
  [[nodiscard]] size_t max_connections() const { return connections_.limit(); }

 private:
  struct Socket {
    Descriptor descriptor;
    size_t address;  // Index of its acceptor.
  };
  struct UnixSocket {
    std::string path;
    SocketLock lock;
  };

  Listener(const ConnectionLimits& limits, std::function<void()> on_refused)
      : limits_(limits), on_refused_(std::move(on_refused)) {}
  absl::Status OpenAddress(const std::string& address, size_t index);
  absl::Status OpenUnix(const std::string& path, size_t index);
  absl::Status OpenTcp(const std::string& address, size_t index);
  // Binds `descriptor` and listens. Returns 0, or the system's error.
  int Listen(Descriptor descriptor, const void* address, size_t bytes, size_t index);
  absl::Status PrepareToAccept();

  void Main();
  void Accept(const Socket& socket);
  // Closes floods if it is time to.
  void CloseFloods();
  // Closes a connection with the spare descriptor, after the others ran out.
  void RefuseWithSpare(const Socket& socket);
  // Counts a connection that is closed because of a limit.
  void CountClosed();
  // Returns early if the listener stops.
  void Pause() const;

  const ConnectionLimits limits_;
  const std::function<void()> on_refused_;
  std::vector<UnixSocket> unix_sockets_;
  std::vector<Socket> sockets_;
  std::vector<std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor>> acceptors_;
  int port_ = 0;
  ConnectionTable connections_;
  Descriptor epoll_, stop_, spare_;

  // Used by the thread only.
  absl::Duration next_log_;  // On Clock::Real().
  int64_t closed_ = 0;       // Connections closed because of a limit, not logged yet.
  absl::Duration next_flood_check_;

  std::thread thread_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_LISTENER_H_
