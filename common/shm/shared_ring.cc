#include "common/shm/shared_ring.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "futexes use the low half of a counter");
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(sizeof(SharedCounters) <= kRingStart);

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = MakeCrcTable();

constexpr uint64_t RoundUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// True if [offset, offset + bytes) lies in the message and does not cross the end of the ring.
// Values from the peer cannot make this arithmetic overflow.
bool IsPiece(uint64_t offset, uint64_t bytes, uint64_t extent, const SlotBounds& bounds) {
  if (offset < sizeof(SlotHeader) || offset > extent || bytes > extent - offset) return false;
  return bytes <= bounds.capacity - (bounds.position + offset) % bounds.capacity;
}

const SharedCounters* Counters(const SharedSegment& segment) {
  return reinterpret_cast<const SharedCounters*>(segment.data());
}

long Futex(const std::atomic<uint64_t>& counter, int operation, uint32_t value,
           const timespec* limit) {
  return syscall(SYS_futex, &counter, operation, value, limit, nullptr, 0);
}

}  // namespace

uint32_t HeaderCrc(const SlotHeader& header) {
  uint8_t bytes[offsetof(SlotHeader, crc32c)];
  std::memcpy(bytes, &header, sizeof bytes);
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ byte) & 0xff];
  return ~crc;
}

absl::Status CheckHeader(const SlotHeader& header, const SlotBounds& bounds) {
  if (header.magic != kSlotMagic || header.layout_version != kLayoutVersion ||
      header.crc32c != HeaderCrc(header)) {
    return absl::DataLossError("shared memory: invalid message header");
  }
  if (header.epoch != bounds.epoch) {
    return absl::FailedPreconditionError(absl::StrCat("shared memory: message of epoch ",
                                                      header.epoch, ", expected ", bounds.epoch));
  }
  if (header.sequence != bounds.sequence) {
    return absl::DataLossError(absl::StrCat("shared memory: message number ", header.sequence,
                                            ", expected ", bounds.sequence));
  }
  // A skip must begin past the start of the ring and lead back to it. Otherwise a peer could keep
  // the reader busy with a series of skips.
  const uint64_t to_start = bounds.capacity - bounds.position % bounds.capacity;
  const bool extent_fits_kind =
      header.kind == SlotKind::kSkip
          ? header.extent == to_start && to_start < bounds.capacity
          : header.kind == SlotKind::kMessage &&
                IsPiece(header.body_offset, header.body_bytes, header.extent, bounds);
  if (header.extent < sizeof(SlotHeader) || header.extent % kSlotAlignment != 0 ||
      header.extent > bounds.available || !extent_fits_kind) {
    return absl::DataLossError("shared memory: message outside its ring");
  }
  return absl::OkStatus();
}

void SleepUntilChanged(const CounterWatch& watch, absl::Duration limit) {
  const timespec relative = absl::ToTimespec(limit);
  Futex(*watch.counter, FUTEX_WAIT, static_cast<uint32_t>(watch.seen), &relative);
}

void WakeSleepers(const std::atomic<uint64_t>& counter) {
  Futex(counter, FUTEX_WAKE, INT_MAX, nullptr);
}

RingWriter::RingWriter(const SharedSegment& mine, const SharedSegment& theirs, uint32_t epoch)
    : mine_(reinterpret_cast<SharedCounters*>(mine.data())),
      theirs_(Counters(theirs)),
      ring_(mine.data() + kRingStart),
      capacity_(mine.bytes() - kRingStart),
      epoch_(epoch) {
  CHECK_EQ(mine.bytes(), theirs.bytes());
  CHECK_EQ(capacity_ % kSlotAlignment, 0u);
}

bool RingWriter::CanEverReserve(size_t bytes) const {
  // A message gets at most half of the ring, because it may also need a gap before the end of the
  // ring. The gap is smaller than the piece that did not fit there.
  const uint64_t limit = capacity_ / 2;
  return bytes <= limit && content_ + RoundUp(bytes, kSlotAlignment) <= limit;
}

RingWriter::Piece RingWriter::Reserve(size_t bytes) {
  if (!CanEverReserve(bytes)) return {};
  acked_ = theirs_->ack.load(std::memory_order_acquire);
  const bool has_pieces = end_ > begin_ + sizeof(SlotHeader);
  if (!has_pieces && acked_ == begin_ && begin_ % capacity_ >= kRewindAfter) {
    SlotHeader skip{};
    skip.kind = SlotKind::kSkip;
    skip.extent = capacity_ - begin_ % capacity_;
    PublishSlot(skip);
  }
  uint64_t at = end_;
  if (at % capacity_ + bytes > capacity_) at = RoundUp(at, capacity_);
  const uint64_t end = at + RoundUp(bytes, kSlotAlignment);
  // An invalid ack counts as a full ring.
  if (acked_ > begin_ || end - acked_ > capacity_) return {};
  end_ = end;
  content_ += RoundUp(bytes, kSlotAlignment);
  return {ring_ + at % capacity_, at - begin_};
}

void RingWriter::Publish(const Piece& body, size_t body_bytes) {
  SlotHeader header{};
  header.kind = SlotKind::kMessage;
  header.extent = end_ - begin_;
  header.body_offset = body.offset;
  header.body_bytes = body_bytes;
  PublishSlot(header);
}

void RingWriter::PublishSlot(SlotHeader header) {
  header.magic = kSlotMagic;
  header.layout_version = kLayoutVersion;
  header.sequence = ++sequence_;
  header.epoch = epoch_;
  header.crc32c = HeaderCrc(header);
  std::memcpy(ring_ + begin_ % capacity_, &header, sizeof header);
  begin_ += header.extent;
  DiscardMessage();
  // Store the head before loading the flag: either the reader sees the slot, or this thread sees
  // that the reader is asleep.
  mine_->head.store(begin_, std::memory_order_seq_cst);
  if (theirs_->awaits_message.load(std::memory_order_seq_cst) != 0) WakeSleepers(mine_->head);
}

void RingWriter::DiscardMessage() {
  end_ = begin_ + sizeof(SlotHeader);
  content_ = sizeof(SlotHeader);
}

CounterWatch RingWriter::room_watch() const { return {&theirs_->ack, acked_, &mine_->awaits_room}; }

RingReader::RingReader(const SharedSegment& mine, const SharedSegment& theirs, uint32_t epoch)
    : mine_(reinterpret_cast<SharedCounters*>(mine.data())),
      theirs_(Counters(theirs)),
      ring_(theirs.data() + kRingStart) {
  CHECK_EQ(mine.bytes(), theirs.bytes());
  bounds_.capacity = theirs.bytes() - kRingStart;
  bounds_.sequence = 1;
  bounds_.epoch = epoch;
}

absl::StatusOr<bool> RingReader::TakeMessage() {
  for (;;) {
    const uint64_t head = theirs_->head.load(std::memory_order_acquire);
    if (head == bounds_.position) return false;
    // If the head moved backward, the difference wraps to a value larger than any ring.
    bounds_.available = head - bounds_.position;
    if (bounds_.available > bounds_.capacity || bounds_.available % kSlotAlignment != 0) {
      return absl::DataLossError("shared memory: invalid head position from the peer");
    }
    SlotHeader header;
    std::memcpy(&header, At(0), sizeof header);
    RETURN_IF_ERROR(CheckHeader(header, bounds_));
    extent_ = header.extent;
    if (header.kind == SlotKind::kMessage) {
      body_ = {At(header.body_offset), header.body_bytes};
      return true;
    }
    Release();
  }
}

absl::StatusOr<absl::string_view> RingReader::Piece(uint64_t offset, uint64_t bytes) const {
  if (!IsPiece(offset, bytes, extent_, bounds_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory: ", bytes, " bytes at offset ", offset,
                     " do not lie in one piece of a message of ", extent_, " bytes"));
  }
  return absl::string_view(At(offset), bytes);
}

void RingReader::Release() {
  if (extent_ == 0) return;
  bounds_.position += extent_;
  ++bounds_.sequence;
  extent_ = 0;
  body_ = {};
  mine_->ack.store(bounds_.position, std::memory_order_seq_cst);
  if (theirs_->awaits_room.load(std::memory_order_seq_cst) != 0) WakeSleepers(mine_->ack);
}

CounterWatch RingReader::message_watch() const {
  return {&theirs_->head, bounds_.position + extent_, &mine_->awaits_message};
}

}  // namespace bastion::wire
