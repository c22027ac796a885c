// The rings of messages between two processes: one each way, over two segments (shared_segment.h)
// that each have one writer.
//
//   a segment:  [0, 4096)   SharedCounters of the side that writes it
//               [4096, …)   its ring: the bytes that it publishes, round and round
//   a message:  SlotHeader | piece | piece | …
//
// Everything begins on a 64-byte border and no piece crosses the end of the ring: what does not fit
// before it begins at the ring's start, so that a piece can be written and read in place. One of
// the pieces is the message's body, the others are what the body refers to. Positions count bytes
// since the beginning and never wrap.
//
// A ring is as large as the largest messages want it, and most are small: when it is empty the
// writer skips back to its start now and then, so that memory is only used, and stays in the
// caches, as far as messages pile up.
//
// A message becomes visible when the head moves past it: whoever dies in the middle of writing one
// has written nothing. Nothing the other side writes is believed: a header is copied, then checked.
// Thread-compatible; a writer and a reader over the same segments may be on two threads.
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

inline constexpr size_t kSlotBorder = 64;
inline constexpr size_t kRingStart = 4096;

struct SharedCounters {
  alignas(kSlotBorder) std::atomic<uint64_t> head;  // Position after what I published.
  alignas(kSlotBorder) std::atomic<uint64_t> ack;  // Position before which I need nothing of yours.
  alignas(kSlotBorder) std::atomic<uint32_t> awaits_message;  // I sleep until your head moves.
  std::atomic<uint32_t> awaits_room;                          // I sleep until your ack moves.
};

enum class SlotKind : uint32_t { kMessage = 1, kSkip = 2 };

struct SlotHeader {
  uint32_t magic;
  uint32_t layout_version;
  uint64_t sequence;     // 1, 2, 3, … in each ring.
  uint64_t extent;       // Bytes from this header to the next one.
  uint64_t body_offset;  // From this header.
  uint64_t body_bytes;
  uint32_t epoch;  // Of the attachment: a message of an earlier one is not taken for a new one.
  SlotKind kind;   // kSkip: nothing until the next header, at the ring's start.
  uint32_t unused[3];
  uint32_t crc32c;  // Of the bytes before it.
};
static_assert(sizeof(SlotHeader) == kSlotBorder);

inline constexpr uint32_t kSlotMagic = 0x54534142;  // "BAST"
inline constexpr uint32_t kLayoutVersion = 1;
// What piles up before an empty ring begins at its start again.
inline constexpr uint64_t kRewindAfter = 1 << 20;
// Changes with what either side takes for granted about the memory of the other.
inline constexpr uint64_t kLayoutHash = sizeof(SharedCounters) << 32 | kRingStart << 16 |
                                        offsetof(SlotHeader, crc32c) << 8 |
                                        offsetof(SlotHeader, epoch);

// What the next header of a ring must agree with.
struct SlotBounds {
  uint64_t position = 0;   // Of the header.
  uint64_t available = 0;  // Bytes published from there on.
  uint64_t capacity = 0;   // Bytes of the ring.
  uint64_t sequence = 0;
  uint32_t epoch = 0;
};

[[nodiscard]] uint32_t HeaderCrc(const SlotHeader& header);
// FAILED_PRECONDITION for another epoch, DATA_LOSS for anything else that is not a header of ours
// whose message and body lie within `bounds`. `header` is a copy that nobody else can change.
[[nodiscard]] absl::Status CheckHeader(const SlotHeader& header, const SlotBounds& bounds);

// One of the peer's counters that should move on from `seen`, and our flag that says we sleep until
// it does.
struct Bell {
  const std::atomic<uint64_t>* counter;
  uint64_t seen;
  std::atomic<uint32_t>* asleep;

  [[nodiscard]] bool rung() const { return counter->load(std::memory_order_seq_cst) != seen; }
};
// Sleeps until the bell is rung, at most `limit`; it may also return for no reason.
void SleepUntilRung(const Bell& bell, absl::Duration limit);
// Wakes who sleeps on `counter`, in any process.
void WakeSleepers(const std::atomic<uint64_t>& counter);

class RingWriter {
 public:
  // A piece of the message being written; no data: there is no room for it now.
  struct Piece {
    char* data = nullptr;
    uint64_t offset = 0;  // From the message's header.
  };

  // The segments must outlive the writer and have one size, whole slots of it for the ring.
  RingWriter(const SharedSegment& mine, const SharedSegment& theirs, uint32_t epoch);

  // Room for `bytes` more of the message being written, good until it is published.
  [[nodiscard]] Piece Reserve(size_t bytes);
  // Whether an empty ring has room for `bytes` more.
  [[nodiscard]] bool CanEverReserve(size_t bytes) const;
  // Ends the message with `body`, the last piece that was reserved, and shows it to the reader.
  void Publish(const Piece& body, size_t body_bytes);
  // Forgets the message being written.
  void Abandon();

  // Rung when there may be room that the last Reserve missed.
  [[nodiscard]] Bell room() const;

 private:
  // Shows a slot to the reader and goes on behind it.
  void Show(SlotHeader header);

  SharedCounters* const mine_;
  const SharedCounters* const theirs_;
  char* const ring_;
  const uint64_t capacity_;
  const uint32_t epoch_;
  uint64_t sequence_ = 0;
  uint64_t acked_ = 0;  // As last read.
  // The message being written.
  uint64_t begin_ = 0;
  uint64_t end_ = sizeof(SlotHeader);
  uint64_t content_ = sizeof(SlotHeader);  // Of [begin_, end_), what is not a gap.
};

class RingReader {
 public:
  // As RingWriter.
  RingReader(const SharedSegment& mine, const SharedSegment& theirs, uint32_t epoch);

  // Takes up the next message; false when there is none yet. Errors: CheckHeader, and DATA_LOSS for
  // a head that makes no sense. REQUIRES: the last message was released.
  [[nodiscard]] absl::StatusOr<bool> Take();
  // Of the message taken up. The peer can still change these bytes.
  [[nodiscard]] absl::string_view body() const { return body_; }
  // INVALID_ARGUMENT unless these bytes lie in the message taken up, in one piece.
  [[nodiscard]] absl::StatusOr<absl::string_view> Piece(uint64_t offset, uint64_t bytes) const;
  // Done with the message taken up, if any: the writer may have its room.
  void Release();

  // Rung when there is a message after those taken up.
  [[nodiscard]] Bell message() const;

 private:
  [[nodiscard]] const char* At(uint64_t offset) const {
    return ring_ + (bounds_.position + offset) % bounds_.capacity;
  }

  SharedCounters* const mine_;
  const SharedCounters* const theirs_;
  const char* const ring_;
  SlotBounds bounds_;    // Of the message taken up, else of the next one.
  uint64_t extent_ = 0;  // Of the message taken up; 0: none.
  absl::string_view body_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_SHM_SHARED_RING_H_
