// Attaching: how two processes on one host come to share memory instead of a gRPC stream.
//
//   client                                   server
//   Attach(layout) over gRPC      ───────►   makes a token that is good once
//   token + its sealed memory     ───────►   checks layout, user and token
//   maps the server's memory      ◄───────   its sealed memory
//
// A client on the server's GPU may also be handed a ring in that GPU's memory (device_ring.h).
// The last two go over a SEQPACKET Unix socket in a folder that only the server's user may enter,
// because gRPC cannot hand over descriptors. That connection then is the stream's lease
// (shared_channel.h). Nothing is named by the client, and whatever goes wrong, the stream goes over
// gRPC.
#ifndef BASTION_COMMON_WIRE_ATTACH_H_
#define BASTION_COMMON_WIRE_ATTACH_H_

#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/shm/device_ring.h"
#include "common/stages/features.h"
#include "common/wire/protocol.h"
#include "common/wire/shared_channel.h"
#include "protos/bastion/internal/v1/stages.pb.h"

namespace bastion::wire {

using internal::v1::AttachReply;
using internal::v1::AttachRequest;

struct AttachOptions {
  std::string folder;  // Made if it is not there; else it must be ours alone (0700).
  std::string name;    // Of the service, for the socket: one of each name in a folder.
  size_t ring_bytes = size_t{2} * kMaxMessageBytes;  // Each way; a message may have half of it.
  uid_t peer = 0;                                    // The user whose processes may attach.
};
// For this process's own user.
[[nodiscard]] AttachOptions AttachIn(std::string folder, std::string name);

// The server's side. Thread-safe.
class AttachServer {
 public:
  // Serves one stream until it is over, on a thread of its own; what it returns is told to the
  // peer.
  using Serve = std::function<absl::Status(std::shared_ptr<SharedChannel>)>;

  // FAILED_PRECONDITION for a folder that others may enter; errors of the system by their names.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AttachServer>> Start(AttachOptions options);
  // Cancels the streams and waits for those who serve them.
  ~AttachServer();

  // Answers an Attach: whoever shows the reply's token in time gets a stream that `serve` serves.
  // FAILED_PRECONDITION for another layout, RESOURCE_EXHAUSTED when too many are on offer.
  // `ring`, if any, is handed over too.
  [[nodiscard]] absl::Status Offer(const AttachRequest& request, Serve serve, AttachReply& reply,
                                   std::shared_ptr<const DeviceRingWriter> ring = nullptr)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Offered {
    Serve serve;
    std::shared_ptr<const DeviceRingWriter> ring;
    uint32_t epoch = 0;
    absl::Time until;
  };
  struct Stream {
    std::shared_ptr<SharedChannel> channel;
    std::thread thread;
    std::atomic<bool> over{false};
  };

  explicit AttachServer(AttachOptions options) : options_(std::move(options)) {}
  [[nodiscard]] absl::Status Listen();
  void AcceptAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Turns a connection into a stream that is being served.
  [[nodiscard]] absl::Status Admit(Descriptor connection) ABSL_LOCKS_EXCLUDED(mutex_);
  [[nodiscard]] absl::StatusOr<Offered> Redeem(const std::string& token)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void JoinOver();

  const AttachOptions options_;
  std::string path_;
  Descriptor listener_;
  std::thread accepting_;
  std::atomic<bool> stopping_{false};
  std::list<Stream> streams_;  // Of the accepting thread.
  Mutex mutex_;
  absl::flat_hash_map<std::string, Offered> offers_ ABSL_GUARDED_BY(mutex_);  // By token.
};

// For a service's main: null for an empty folder, which means that shared memory is off.
[[nodiscard]] absl::StatusOr<std::unique_ptr<AttachServer>> StartAttachServer(
    const std::string& folder, const std::string& name);

// Whether a client proposes shared memory.
enum class CarrierChoice { kAuto, kInline };  // kAuto: to peers behind a Unix socket.
[[nodiscard]] absl::StatusOr<CarrierChoice> ParseCarrierChoice(const std::string& text);

// The client's side for one kind of stream to one peer. Thread-compatible.
class Attacher {
 public:
  using Ask = std::function<grpc::Status(grpc::ClientContext*, const AttachRequest&, AttachReply*)>;

  // `address`: the peer's gRPC address; `ask`: `stub->Attach`.
  Attacher(const std::string& address, CarrierChoice choice, AttachRequest::Stream stream, Ask ask);

  // What goes over the stream can be read in a GPU's memory, too.
  void ProposeDevice(const DeviceReader& reader);

  // A fresh stream, or null when it has to go over gRPC. Logs what was agreed on when that changes.
  [[nodiscard]] std::shared_ptr<SharedChannel> Attach(absl::Time deadline);

 private:
  [[nodiscard]] absl::StatusOr<std::shared_ptr<SharedChannel>> TryAttach(absl::Time deadline);

  const std::string address_;
  const bool proposes_;
  const AttachRequest::Stream stream_;
  const Ask ask_;
  std::optional<internal::v1::DeviceReader> device_;
  std::string logged_;
};

// The client's half of the handshake, once a server has answered. No step of it may take longer
// than `patience`.
[[nodiscard]] absl::StatusOr<SharedEnds> TakeOffer(const AttachReply& offer,
                                                   absl::Duration patience = absl::Seconds(2));

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_ATTACH_H_
