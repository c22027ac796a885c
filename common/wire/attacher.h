// Attacher: the client's side of the attach handshake (attach_server.h).
#ifndef BASTION_COMMON_WIRE_ATTACHER_H_
#define BASTION_COMMON_WIRE_ATTACHER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "bastion/internal/v1/stages.pb.h"
#include "common/stages/features.h"
#include "common/wire/descriptor_passing.h"
#include "common/wire/shared_channel.h"
#include "common/wire/transport_stats.h"

namespace bastion::wire {

using internal::v1::AttachReply;
using internal::v1::AttachRequest;

// How a client transports its streams. kAuto: over shared memory if the peer's address is a Unix
// socket and the peer offers it, else over gRPC. kInline: always over gRPC.
enum class CarrierChoice { kAuto, kInline };
// INVALID_ARGUMENT unless `text` is "auto" or "inline".
[[nodiscard]] absl::StatusOr<CarrierChoice> ParseCarrierChoice(const std::string& text);

// Attaches streams of one kind to one peer. Thread-compatible.
class Attacher {
 public:
  using AttachCall =
      std::function<grpc::Status(grpc::ClientContext*, const AttachRequest&, AttachReply*)>;

  // `address` is the peer's gRPC address. `attach` calls `stub->Attach`.
  Attacher(const std::string& address, CarrierChoice choice, AttachRequest::Stream stream,
           AttachCall attach);

  // Tells the peer in later calls that this client can read the stream's tensors in GPU memory.
  void ProposeDevice(const DeviceReader& reader);

  // What the streams of this attacher carry. OpenTimedStream and CountedStream count it.
  [[nodiscard]] TransportStats& stats() { return stats_; }
  [[nodiscard]] const TransportStats& stats() const { return stats_; }

  // Returns a new stream over shared memory, or null if the stream must go over gRPC. Logs the
  // transport when it changes. UNAVAILABLE or DEADLINE_EXCEEDED if the peer does not answer: it may
  // be starting, and a stream over gRPC could succeed a moment later and then stay.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<SharedChannel>> Attach(absl::Time deadline);

 private:
  // Asks the peer for an offer. The peer's errors, or those of the connection.
  [[nodiscard]] absl::StatusOr<internal::v1::AttachReply> Ask(absl::Time deadline);
  [[nodiscard]] absl::StatusOr<std::shared_ptr<SharedChannel>> Accept(
      const internal::v1::AttachReply& offer, absl::Time deadline);

  const std::string address_;
  const bool enabled_;
  const AttachRequest::Stream stream_;
  const AttachCall attach_;
  std::optional<internal::v1::DeviceReader> device_;
  std::string last_outcome_;  // The last outcome that was logged.
  TransportStats stats_;
};

// The client's part of the handshake after the server's AttachReply. Each step may take at most
// `timeout`.
[[nodiscard]] absl::StatusOr<SharedEnds> AcceptOffer(const AttachReply& offer,
                                                     absl::Duration timeout = kHandshakeTimeout);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_ATTACHER_H_
