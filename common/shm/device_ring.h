// A ring buffer in GPU memory. One process writes it. A peer on the same GPU, or on a GPU that can
// read this memory, reads it, so the bytes never pass through host memory.
//
// When the peer attaches (attach_server.h), it receives two descriptors: the GPU memory and a
// segment of host memory with one counter. A piece is a contiguous block of bytes that a message
// refers to, by its position in the ring.
// Positions count the bytes written since the ring was created; they never wrap. A piece begins at
// position % capacity and does not cross the end of the ring.
//
// The writer does not wait for readers. Before the device may write [p, p + n), the host stores the
// counter p + n ("announces" it). A reader checks the counter after it has copied a piece: the copy
// is valid if the counter is at most one capacity beyond the beginning of the piece. This is safe
// because the writer stores the counter before it launches the device's write, and the reader loads
// it after its copy has finished. The writer sends a position to the peer only after the device has
// finished writing the piece.
// Unlike a SharedSegment, GPU memory cannot be sealed: a peer could map it for writing. This is
// acceptable because peers are processes of the same user (attach_server.h), and the writer never
// reads the ring.
#ifndef BASTION_COMMON_SHM_DEVICE_RING_H_
#define BASTION_COMMON_SHM_DEVICE_RING_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/shm/shared_segment.h"
#include "common/stages/features.h"

namespace bastion::wire {

// Alignment of pieces in bytes: the widest store of a kernel.
inline constexpr uint64_t kDeviceAlignment = 16;

struct DeviceRingCounters {
  std::atomic<uint64_t> announced;  // The device may have written up to this position.
};

// The descriptors and sizes that the peer receives when it attaches.
struct DeviceRingEnds {
  Descriptor memory;      // GPU memory of `capacity` bytes.
  Descriptor counters;    // Segment with the DeviceRingCounters.
  uint64_t capacity = 0;  // bytes
  std::string uuid = {};  // The writer's GPU. Empty: that of the reader.
};

// The writer's end. One thread writes; any thread may call const methods.
class DeviceRingWriter {
 public:
  // `memory` is `capacity` bytes of memory of the GPU `uuid`. REQUIRES: capacity is a positive
  // multiple of kDeviceAlignment. Errors: those of SharedSegment::Create.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<DeviceRingWriter>> Create(Descriptor memory,
                                                                                uint64_t capacity,
                                                                                std::string uuid);

  // Reserves `bytes` and returns their position. The device may write there after this call.
  // Nullopt if `bytes` is more than half of the ring. Releases an earlier reservation that was not
  // kept.
  [[nodiscard]] std::optional<uint64_t> Reserve(uint64_t bytes);
  // Keeps the first `bytes` of the last reservation. REQUIRES: bytes <= the reserved bytes.
  void Keep(uint64_t bytes);

  // See DeviceRing::Holds in common/stages/features.h.
  [[nodiscard]] bool Holds(uint64_t position) const;
  // True while there is a reader. Without a reader, the owner need not write.
  [[nodiscard]] bool has_reader() const { return readers_.load(std::memory_order_relaxed) > 0; }
  // Counts a reader as long as the returned object lives. The ring must outlive that object.
  [[nodiscard]] std::shared_ptr<void> AddReader() const;

  [[nodiscard]] const std::string& uuid() const { return uuid_; }
  [[nodiscard]] uint64_t capacity() const { return capacity_; }
  // Descriptors of the GPU memory and of the counters, to send to the peer.
  [[nodiscard]] std::pair<int, int> descriptors() const {
    return {memory_.get(), counters_.descriptor()};
  }

 private:
  DeviceRingWriter(Descriptor memory, uint64_t capacity, std::string uuid, SharedSegment counters)
      : memory_(std::move(memory)),
        capacity_(capacity),
        uuid_(std::move(uuid)),
        counters_(std::move(counters)) {}
  [[nodiscard]] std::atomic<uint64_t>& announced() const;

  const Descriptor memory_;
  const uint64_t capacity_;
  const std::string uuid_;
  const SharedSegment counters_;
  mutable std::atomic<int> readers_{0};
  uint64_t head_ = 0;      // Position of the current reservation, or where the next one may begin.
  uint64_t reserved_ = 0;  // Bytes reserved from `head_` on.
};

// The reader's end. Thread-safe.
class DeviceRingReader final : public DeviceRing {
 public:
  // Maps both descriptors. Errors: those of SharedSegment::Map and reader.import.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const DeviceRingReader>> Import(
      DeviceRingEnds ends, const DeviceReader& reader);

  // INVALID_ARGUMENT unless a piece of `bytes` can be at `position`.
  [[nodiscard]] absl::Status Check(uint64_t position, uint64_t bytes) const;
  const char* At(uint64_t position) const override { return data_.get() + position % capacity_; }
  bool Holds(uint64_t position) const override;
  [[nodiscard]] uint64_t capacity() const { return capacity_; }
  // True if the ring is in the memory of another GPU than the reader's.
  [[nodiscard]] bool on_peer() const { return on_peer_; }

 private:
  DeviceRingReader(std::shared_ptr<const char> data, uint64_t capacity, bool on_peer,
                   SharedSegment counters)
      : data_(std::move(data)),
        capacity_(capacity),
        on_peer_(on_peer),
        counters_(std::move(counters)) {}
  [[nodiscard]] uint64_t announced() const;

  const std::shared_ptr<const char> data_;  // In GPU memory.
  const uint64_t capacity_;
  const bool on_peer_;
  const SharedSegment counters_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_SHM_DEVICE_RING_H_
