// Message rings between two processes: one ring for each direction. Each ring lies in a segment
// (shared_segment.h) that only one process writes.
//
//   a segment:  [0, 4096)   SharedCounters of the process that writes it
//               [4096, …)   its ring
//   a message:  SlotHeader | piece | piece | …
//   a slot:     a message, or a header that skips the rest of the ring
//
// Headers and pieces are aligned to 64 bytes. A piece never crosses the end of the ring: if it does
// not fit before the end, it begins at the start of the ring. So a piece can be written and read in
// place. One piece is the body of the message; the body refers to the other pieces. Positions count
// the bytes published since the ring was created; they never wrap.
//
// A ring has room for the largest messages, but most messages are small. When the ring is empty and
// the writer is more than kRewindAfter bytes into it, the writer skips back to the start. So a ring
// that never fills up touches little memory, and that memory stays in the CPU caches.
//
// A message becomes visible when the writer's `head` moves past it (SharedCounters), so a process
// that dies while it writes a message publishes no part of it. The reader does not trust the
// writer: it copies each header, then checks the copy. Thread-compatible. A writer and a reader of
// the same segments may run on two threads.
#ifndef BASTION_COMMON_SHM_SHARED_RING_H_
#define BASTION_COMMON_SHM_SHARED_RING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/shm/shared_segment.h"

namespace bastion::wire {

inline constexpr size_t kSlotAlignment = 64;
inline constexpr size_t kRingStart = 4096;

// Written by the owner of a segment, read by the peer.
struct SharedCounters {
  // The owner has published everything before this position of its own ring.
  alignas(kSlotAlignment) std::atomic<uint64_t> head;
  // The owner has released everything before this position of the peer's ring.
  alignas(kSlotAlignment) std::atomic<uint64_t> ack;
  // Not 0: the owner is asleep until the peer's head moves.
  alignas(kSlotAlignment) std::atomic<uint32_t> awaits_message;
  // Not 0: the owner is asleep until the peer's ack moves.
  std::atomic<uint32_t> awaits_room;
};

// kSkip: no message here; the next header is at the start of the ring.
enum class SlotKind : uint32_t { kMessage = 1, kSkip = 2 };

struct SlotHeader {
  uint32_t magic;
  uint32_t layout_version;
  uint64_t sequence;     // 1, 2, 3, … in each ring.
  uint64_t extent;       // Bytes from this header to the next one.
  uint64_t body_offset;  // Bytes from this header to the body.
  uint64_t body_bytes;
  uint32_t epoch;  // Differs for each attachment. Messages of an earlier attachment are rejected.
  SlotKind kind;
  uint32_t unused[3];
  uint32_t crc32c;  // Checksum of the bytes before this field.
};
static_assert(sizeof(SlotHeader) == kSlotAlignment);

inline constexpr uint32_t kSlotMagic = 0x54534142;  // "BAST"
inline constexpr uint32_t kLayoutVersion = 1;
// An empty ring skips back to its start once its position is this many bytes into the ring.
inline constexpr uint64_t kRewindAfter = 1 << 20;
// Differs between two builds that lay out the shared structures differently.
inline constexpr uint64_t kLayoutHash = sizeof(SharedCounters) << 32 | kRingStart << 16 |
                                        offsetof(SlotHeader, crc32c) << 8 |
                                        offsetof(SlotHeader, epoch);

// The values that the next header of a ring is checked against.
struct SlotBounds {
  uint64_t position = 0;   // Position of the header.
  uint64_t available = 0;  // Bytes published from `position` on.
  uint64_t capacity = 0;   // Bytes of the ring.
  uint64_t sequence = 0;   // Expected sequence number.
  uint32_t epoch = 0;
};

[[nodiscard]] uint32_t HeaderCrc(const SlotHeader& header);
// FAILED_PRECONDITION for another epoch. DATA_LOSS if anything else is wrong with the header, or if
// its message or body do not lie within `bounds`. REQUIRES: `header` is a private copy, which the
// peer cannot change.
[[nodiscard]] absl::Status CheckHeader(const SlotHeader& header, const SlotBounds& bounds);

// A wait for one of the peer's counters to change.
struct CounterWatch {
  const std::atomic<uint64_t>* counter;
  uint64_t seen;                  // The last known value of `counter`.
  std::atomic<uint32_t>* asleep;  // Set to 1 while this process sleeps, so that the peer wakes it.

  [[nodiscard]] bool changed() const { return counter->load(std::memory_order_seq_cst) != seen; }
};
// Sleeps until the counter changes, at most `limit`. It may return early.
void SleepUntilChanged(const CounterWatch& watch, absl::Duration limit);
// Wakes the threads that sleep on `counter`, in all processes.
void WakeSleepers(const std::atomic<uint64_t>& counter);

// Writes messages to the ring of segment `mine`.
class RingWriter {
 public:
  // A piece of the message being written.
  struct Piece {
    char* data = nullptr;  // Null: the ring has no room now.
    uint64_t offset = 0;   // Bytes from the message's header.
  };

  // REQUIRES: the segments outlive the writer and have the same size; the ring's size is a multiple
  // of kSlotAlignment.
  RingWriter(const SharedSegment& mine, const SharedSegment& theirs, uint32_t epoch);

  // Reserves a piece of `bytes` in the message being written. The piece may be written until
  // Publish.
  [[nodiscard]] Piece Reserve(size_t bytes);
  // True if the message being written could hold `bytes` more in an empty ring.
  [[nodiscard]] bool CanEverReserve(size_t bytes) const;
  // Publishes the message. `body` is the last piece that was reserved.
  void Publish(const Piece& body, size_t body_bytes);
  // Discards the message being written.
  void DiscardMessage();

  // Watches for room after a Reserve that found none.
  [[nodiscard]] CounterWatch room_watch() const;

 private:
  // Publishes a slot and begins the next slot after it.
  void PublishSlot(SlotHeader header);

  SharedCounters* const mine_;
  const SharedCounters* const theirs_;
  char* const ring_;
  const uint64_t capacity_;
  const uint32_t epoch_;
  uint64_t sequence_ = 0;
  uint64_t acked_ = 0;  // The peer's ack when it was last read.
  // Positions of the message being written.
  uint64_t begin_ = 0;
  uint64_t end_ = sizeof(SlotHeader);
  uint64_t content_ = sizeof(SlotHeader);  // Bytes of [begin_, end_) without gaps.
};

// Reads messages from the ring of segment `theirs`.
class RingReader {
 public:
  // REQUIRES: as for RingWriter.
  RingReader(const SharedSegment& mine, const SharedSegment& theirs, uint32_t epoch);

  // Takes the next message. Returns false if there is none yet. Errors: those of CheckHeader, and
  // DATA_LOSS for an invalid head position. REQUIRES: the last message has been released.
  [[nodiscard]] absl::StatusOr<bool> TakeMessage();
  // Body of the current message. The peer can still change these bytes.
  [[nodiscard]] absl::string_view body() const { return body_; }
  // Bytes [offset, offset + bytes) of the current message. The peer can still change them.
  // INVALID_ARGUMENT unless they lie in the message and do not cross the end of the ring.
  [[nodiscard]] absl::StatusOr<absl::string_view> Piece(uint64_t offset, uint64_t bytes) const;
  // Releases the current message, if any: the writer may reuse its room.
  void Release();

  // Watches for the next message.
  [[nodiscard]] CounterWatch message_watch() const;

 private:
  [[nodiscard]] const char* At(uint64_t offset) const {
    return ring_ + (bounds_.position + offset) % bounds_.capacity;
  }

  SharedCounters* const mine_;
  const SharedCounters* const theirs_;
  const char* const ring_;
  SlotBounds bounds_;    // Bounds of the current message, or of the next if there is none.
  uint64_t extent_ = 0;  // Extent of the current message; 0: none.
  absl::string_view body_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_SHM_SHARED_RING_H_
