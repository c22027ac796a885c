// Shared memory of a peer that writes anything into its segment, also between two steps of this
// side: the rings, and the channel over them. The input says when the peer writes, so a crash
// reproduces.
#include <sys/socket.h>

#include <cstring>
#include <optional>

#include "bastion/internal/v1/stages.pb.h"
#include "common/base/check.h"
#include "common/shm/shared_ring.h"
#include "common/wire/shared_channel.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion::wire {
namespace {

using testing::FuzzInput;

constexpr uint32_t kEpoch = 7;

SharedSegment Segment(size_t bytes) {
  auto segment = SharedSegment::Create(bytes);
  CHECK(segment.ok()) << segment.status();
  return *std::move(segment);
}

// Bytes of a ring. The large one is long enough for its writer to skip back to the start.
size_t RingBytes(FuzzInput& input) { return input.Byte() % 2 == 0 ? 4096 : 3 * kRewindAfter; }

// The owner of the other segment.
class Peer {
 public:
  explicit Peer(const SharedSegment& segment)
      : counters_(*reinterpret_cast<SharedCounters*>(segment.data())),
        ring_(segment.data() + kRingStart),
        capacity_(segment.bytes() - kRingStart) {}

  // A write that the input chooses.
  void Act(FuzzInput& input) {
    switch (input.Byte() % 7) {
      case 0:
        counters_.head = input.Number();
        return;
      case 1:
        counters_.ack = input.Number();
        return;
      case 2:
        counters_.awaits_message = input.Byte();
        counters_.awaits_room = input.Byte();
        return;
      case 3:
        return Write(input.Number(), input.Bytes(input.Byte()));
      case 4:
        return Publish(input.Bytes(input.Byte()));
      case 5:
        return Publish(Tensor(input).SerializeAsString());
      case 6:
        return PublishHeader(input);
    }
  }

 private:
  // Bytes at a position of the ring. Those beyond its end are left out.
  void Write(uint64_t position, const std::string& bytes) {
    const uint64_t at = position % capacity_;
    std::memcpy(ring_ + at, bytes.data(), std::min(bytes.size(), capacity_ - at));
  }
  // A header with a valid checksum at the head, which moves beyond it.
  void Publish(SlotHeader header) {
    header.magic = kSlotMagic;
    header.layout_version = kLayoutVersion;
    header.crc32c = HeaderCrc(header);
    const uint64_t head = counters_.head / kSlotAlignment * kSlotAlignment;
    Write(head, std::string(reinterpret_cast<const char*>(&header), sizeof header));
    counters_.head = head + header.extent;
  }
  void Publish(const std::string& body) {
    SlotHeader header{};
    header.sequence = ++sequence_;
    header.extent =
        (sizeof header + body.size() + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
    header.body_offset = sizeof header;
    header.body_bytes = body.size();
    header.epoch = kEpoch;
    header.kind = SlotKind::kMessage;
    Write(counters_.head + sizeof header, body);
    Publish(header);
  }
  void PublishHeader(FuzzInput& input) {
    SlotHeader header{};
    header.sequence = ++sequence_ + input.Byte() / 128;
    header.extent = input.Number();
    header.body_offset = input.Number();
    header.body_bytes = input.Number();
    header.epoch = kEpoch + input.Byte() / 128;
    header.kind = static_cast<SlotKind>(input.Byte() % 4);
    if (header.kind == SlotKind::kSkip && header.extent == 0) {
      header.extent = capacity_ - counters_.head % capacity_;
    }
    Publish(header);
  }
  // A message whose tensor lies anywhere.
  static internal::v1::FeatureReply Tensor(FuzzInput& input) {
    internal::v1::FeatureReply reply;
    TensorRef& tensor = *reply.mutable_features();
    tensor.set_dtype(static_cast<TensorRef::DType>(input.Byte() % 4));
    for (int dims = input.Byte() % 4; dims > 0; --dims) {
      tensor.add_shape(static_cast<int64_t>(input.Number()));
    }
    tensor.mutable_slot()->set_offset(input.Number());
    tensor.mutable_slot()->set_bytes(input.Number());
    return reply;
  }

  SharedCounters& counters_;
  char* const ring_;
  const uint64_t capacity_;
  uint64_t sequence_ = 0;
};

// `bytes` lie in the ring of `segment`, and the first and the last can be read.
void CheckInRing(absl::string_view bytes, const SharedSegment& segment) {
  const char* const ring = segment.data() + kRingStart;
  CHECK_GE(bytes.data(), ring);
  CHECK_LE(bytes.size(), segment.bytes() - kRingStart);
  CHECK_LE(bytes.data() - ring, static_cast<int64_t>(segment.bytes() - kRingStart - bytes.size()));
  if (bytes.empty()) return;
  [[maybe_unused]] const volatile char ends = static_cast<char>(bytes.front() ^ bytes.back());
}

void UseRings(FuzzInput& input) {
  const size_t bytes = kRingStart + RingBytes(input);
  const SharedSegment mine = Segment(bytes), theirs = Segment(bytes);
  Peer peer(theirs);
  RingReader reader(mine, theirs, kEpoch);
  RingWriter writer(mine, theirs, kEpoch);
  RingWriter::Piece last;
  size_t last_bytes = 0;
  while (!input.empty()) {
    switch (input.Byte() % 8) {
      case 0:
        reader.Release();
        if (!reader.TakeMessage().ok()) return;
        break;
      case 1: {
        const uint64_t offset = input.Number();
        const auto piece = reader.Piece(offset, input.Number());
        if (piece.ok()) CheckInRing(*piece, theirs);
        break;
      }
      case 2: {
        const size_t reserved = input.Number();
        const RingWriter::Piece piece = writer.Reserve(reserved);
        if (piece.data == nullptr) break;
        CheckInRing({piece.data, reserved}, mine);
        if (reserved > 0) piece.data[0] = piece.data[reserved - 1] = 'x';
        last = piece;
        last_bytes = reserved;
        break;
      }
      case 3:
        if (last.data != nullptr) writer.Publish(last, last_bytes);
        last = {};
        break;
      default:
        peer.Act(input);
    }
    if (!reader.body().empty()) CheckInRing(reader.body(), theirs);
  }
}

// An error after which a stream may go on.
bool MayGoOn(const absl::Status& status) {
  return status.ok() || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

void UseChannel(FuzzInput& input) {
  const size_t bytes = kRingStart + RingBytes(input);
  int sockets[2];
  CHECK_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
  const Descriptor lease(sockets[1]);
  SharedEnds ends{Descriptor(sockets[0]), Segment(bytes), Segment(bytes), kEpoch};
  Peer peer(ends.theirs);
  SharedChannel channel(std::move(ends), /*spin=*/absl::ZeroDuration());
  std::string packet;
  while (!input.empty()) {
    switch (input.Byte() % 8) {
      case 0:
      case 1: {
        internal::v1::FeatureReply reply;
        const absl::Status received = channel.Receive(&reply, absl::InfinitePast());
        if (!MayGoOn(received)) return;
        if (!received.ok()) break;
        peer.Act(input);
        const auto tensor = channel.Get(reply.features());
        if (tensor.ok()) packet.append(tensor->data(), std::min<size_t>(tensor->size(), 64));
        break;
      }
      case 2: {
        internal::v1::FeatureReply reply;
        const TensorShape shape = {TensorRef::DTYPE_BFLOAT16, {input.Byte(), 16}};
        char* const room = channel.Reserve(shape, *reply.mutable_features());
        if (shape.bytes() > 0) room[0] = room[shape.bytes() - 1] = 'x';
        if (!MayGoOn(channel.Send(reply, absl::InfinitePast()))) return;
        break;
      }
      case 3:
        packet = input.Bytes(input.Byte());
        (void)send(lease.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        break;
      default:
        peer.Act(input);
    }
  }
}

}  // namespace
}  // namespace bastion::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  if (input.Byte() % 2 == 0) {
    bastion::wire::UseRings(input);
  } else {
    bastion::wire::UseChannel(input);
  }
  return 0;
}
