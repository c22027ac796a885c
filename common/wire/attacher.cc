#include "common/wire/attacher.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"
#include "common/wire/codec.h"
#include "common/wire/protocol.h"

namespace bastion::wire {
namespace {

constexpr uint64_t kMaxSegmentBytes = uint64_t{1} << 30;

}  // namespace

absl::StatusOr<CarrierChoice> ParseCarrierChoice(const std::string& text) {
  if (text == "auto") return CarrierChoice::kAuto;
  if (text == "inline") return CarrierChoice::kInline;
  return absl::InvalidArgumentError(
      absl::StrCat("carrier is '", text, "'; it must be auto or inline"));
}

Attacher::Attacher(const std::string& address, CarrierChoice choice, AttachRequest::Stream stream,
                   AttachCall attach)
    : address_(address),
      enabled_(choice == CarrierChoice::kAuto && absl::StartsWith(address, "unix:")),
      stream_(stream),
      attach_(std::move(attach)) {}

void Attacher::ProposeDevice(const DeviceReader& reader) {
  device_.emplace();
  device_->set_uuid(reader.uuid);
  device_->set_dtype(FeatureDType(reader.type));
  for (const std::string& peer : reader.peers) device_->add_peer_uuids(peer);
}

absl::StatusOr<std::shared_ptr<SharedChannel>> Attacher::Attach(absl::Time deadline) {
  if (!enabled_) return nullptr;
  const absl::StatusOr<AttachReply> offer = Ask(deadline);
  if (absl::IsUnavailable(offer.status()) || absl::IsDeadlineExceeded(offer.status())) {
    return offer.status();
  }
  using Attached = absl::StatusOr<std::shared_ptr<SharedChannel>>;
  Attached attached = offer.ok() ? Accept(*offer, deadline) : Attached(offer.status());
  if (!attached.ok()) {
    ++(absl::IsUnimplemented(attached.status()) ? stats_.not_offered : stats_.handshake_failed);
  }
  const std::string outcome =
      attached.ok() ? "shared memory" : absl::StrCat("gRPC (", attached.status().message(), ")");
  if (std::exchange(last_outcome_, outcome) != outcome) {
    LOG(INFO) << AttachRequest::Stream_Name(stream_) << " to " << address_ << ": over " << outcome;
  }
  return attached.ok() ? *std::move(attached) : nullptr;
}

absl::StatusOr<AttachReply> Attacher::Ask(absl::Time deadline) {
  grpc::ClientContext context;
  AddProtocolVersion(context);
  context.set_deadline(GrpcDeadline(std::min(deadline, SteadyNow() + kOfferLifetime)));
  AttachRequest request;
  request.set_stream(stream_);
  request.set_layout_version(kLayoutVersion);
  request.set_layout_hash(kLayoutHash);
  if (device_) *request.mutable_device() = *device_;
  AttachReply offer;
  RETURN_IF_ERROR(FromGrpc(attach_(&context, request, &offer)));
  return offer;
}

absl::StatusOr<std::shared_ptr<SharedChannel>> Attacher::Accept(const AttachReply& offer,
                                                                absl::Time deadline) {
  // Half of the remaining time: if the handshake fails, the other half is left for gRPC.
  const absl::Duration timeout = std::min(kHandshakeTimeout, (deadline - SteadyNow()) / 2);
  ASSIGN_OR_RETURN(SharedEnds ends, AcceptOffer(offer, timeout));
  return std::make_shared<SharedChannel>(std::move(ends));
}

absl::StatusOr<SharedEnds> AcceptOffer(const AttachReply& offer, absl::Duration timeout) {
  ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(offer.socket()));
  if (offer.segment_bytes() <= kRingStart || offer.segment_bytes() > kMaxSegmentBytes ||
      offer.segment_bytes() % kSlotAlignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shared memory: the peer offered an invalid segment of ", offer.segment_bytes(), " bytes"));
  }
  Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!connection.valid()) return SystemError("socket");
  SetTimeouts(connection, timeout);
  if (TEMP_FAILURE_RETRY(connect(connection.get(), reinterpret_cast<const sockaddr*>(&address),
                                 sizeof address)) != 0) {
    return SystemError(PeerText(offer.socket()));
  }
  RETURN_IF_ERROR(CheckPeerUser(connection, geteuid()));
  ASSIGN_OR_RETURN(SharedSegment mine, SharedSegment::Create(offer.segment_bytes()));
  RETURN_IF_ERROR(SendDescriptors(connection, offer.token(), {mine.descriptor()}));
  const bool with_device = offer.device_bytes() > 0;
  ASSIGN_OR_RETURN(Packet packet, ReceiveDescriptors(connection, with_device ? 3 : 1));
  ASSIGN_OR_RETURN(SharedSegment theirs,
                   SharedSegment::Map(std::move(packet.descriptors[0]), offer.segment_bytes()));
  SharedEnds ends{std::move(connection), std::move(mine), std::move(theirs), offer.epoch()};
  if (with_device) {
    ends.device = std::make_unique<DeviceRingEnds>(
        DeviceRingEnds{std::move(packet.descriptors[1]), std::move(packet.descriptors[2]),
                       offer.device_bytes(), offer.device_uuid()});
  }
  return ends;
}

}  // namespace bastion::wire
