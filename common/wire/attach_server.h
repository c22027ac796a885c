// AttachServer: the server's side of the attach handshake. Two processes on one host use the
// handshake to replace a gRPC stream with a stream over shared memory.
//
//   client (attacher.h)                      server
//   Attach(layout) over gRPC      ───────►   checks the layout
//                                 ◄───────   a single-use token
//   token + its sealed segment    ───────►   checks user, token and segment
//   maps the server's segment     ◄───────   its sealed segment
//
// A client whose GPU can read the memory of the server's may also receive a ring there
// (device_ring.h). gRPC cannot pass descriptors, so the last two messages go over a SEQPACKET Unix
// socket (descriptor_passing.h) in a folder that only the server's user may enter. The connection
// stays open: it is the lease of the stream (shared_channel.h). The client never chooses a file
// name. If the handshake fails for any reason, the client uses gRPC.
#ifndef BASTION_COMMON_WIRE_ATTACH_SERVER_H_
#define BASTION_COMMON_WIRE_ATTACH_SERVER_H_

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bastion/internal/v1/stages.pb.h"
#include "common/base/mutex.h"
#include "common/shm/device_ring.h"
#include "common/wire/protocol.h"
#include "common/wire/shared_channel.h"
#include "common/wire/socket_lock.h"

namespace bastion::wire {

using internal::v1::AttachReply;
using internal::v1::AttachRequest;

struct AttachOptions {
  // Folder of the socket. It is created if it does not exist. It must belong to this user, with
  // mode 0700.
  std::string folder;
  // Name of the service; part of the socket's file name. Two services in one folder need different
  // names.
  std::string name;
  // Bytes of the ring in each direction. A message may use at most half of it.
  size_t ring_bytes = size_t{2} * kMaxMessageBytes;
  // The user whose processes may attach.
  uid_t peer = 0;
};
// Returns options that let processes of the current user attach.
[[nodiscard]] AttachOptions OwnUserOptions(std::string folder, std::string name);

// Thread-safe.
class AttachServer {
 public:
  // Serves one stream until it ends. It runs on its own thread. The peer receives the returned
  // status.
  using Serve = std::function<absl::Status(std::shared_ptr<SharedChannel>)>;

  // FAILED_PRECONDITION for a folder that other users may enter; otherwise the error of the system
  // call that failed.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AttachServer>> Start(AttachOptions options);
  // Cancels all streams and waits for the threads that serve them.
  ~AttachServer();

  // Handles an Attach call: makes an offer and fills `reply` with its token. When a client presents
  // the token within kOfferLifetime, `serve` gets its stream. `ring`, if not null, is passed to the
  // client too. FAILED_PRECONDITION if the client's memory layout differs, RESOURCE_EXHAUSTED if
  // too many offers are open.
  [[nodiscard]] absl::Status Offer(const AttachRequest& request, Serve serve, AttachReply& reply,
                                   std::shared_ptr<const DeviceRingWriter> ring = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct OpenOffer {
    Serve serve;
    std::shared_ptr<const DeviceRingWriter> ring;
    uint32_t epoch = 0;
    absl::Time expires;
  };
  struct Stream {
    std::shared_ptr<SharedChannel> channel;
    std::thread thread;
    std::atomic<bool> finished{false};
  };

  explicit AttachServer(AttachOptions options) : options_(std::move(options)) {}
  [[nodiscard]] absl::Status Listen();
  void AcceptAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Completes the handshake on `connection` and starts to serve the stream.
  [[nodiscard]] absl::Status Admit(Descriptor connection) ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes and returns the offer of `token`. PERMISSION_DENIED if it is unknown or expired.
  [[nodiscard]] absl::StatusOr<OpenOffer> RedeemToken(const std::string& token)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Joins the threads of streams that have ended.
  void JoinFinished();

  const AttachOptions options_;
  std::string path_;
  SocketLock lock_;  // Keeps another process from using path_.
  Descriptor listener_;
  std::thread accepting_;
  std::atomic<bool> stopping_{false};
  std::list<Stream> streams_;  // Used by the accepting thread, then by the destructor.
  Mutex mutex_;
  absl::flat_hash_map<std::string, OpenOffer> offers_ ABSL_GUARDED_BY(mutex_);  // By token.
};

// Starts a server with OwnUserOptions. Null for an empty folder, which turns shared memory off.
[[nodiscard]] absl::StatusOr<std::unique_ptr<AttachServer>> StartAttachServer(
    const std::string& folder, const std::string& name);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_ATTACH_SERVER_H_
