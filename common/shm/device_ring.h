// A ring in the memory of a GPU that one process writes and a peer on the same GPU reads: bytes go
// from one to the other without passing the host.
//
// The memory's descriptor and a segment of host memory with one counter are handed over when the
// peer attaches (attach.h); where in the ring something lies is said in messages. Positions count
// bytes since the beginning and never wrap; a piece begins at position % capacity and does not
// cross the ring's end.
//
// Nobody waits for readers. Before the device may write [p, p + n) the host announces p + n; what a
// reader has copied is good if, afterwards, no more was announced than capacity beyond where it
// began. The counter is written before the work is put on the device and read after the reader's
// copy is done, so an overwriting that the copy saw was announced. What is told to the peer was
// written already: the writer's host has waited for it.
//
// Unlike a SharedSegment a GPU's memory cannot be sealed: a peer could map it for writing. Peers
// are processes of the same user (attach.h), and the writer never reads the ring.
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

inline constexpr uint64_t kDeviceBorder = 16;  // Pieces begin on one: what kernels store at once.

struct DeviceRingCounters {
  std::atomic<uint64_t> announced;  // Position after what was or may be overwritten by now.
};

// What the peer is handed.
struct DeviceRingEnds {
  Descriptor memory;
  Descriptor counters;
  uint64_t capacity = 0;
};

// One thread writes; const methods are for any.
class DeviceRingWriter {
 public:
  // `memory` of GPU `uuid` has `capacity` bytes, a multiple of kDeviceBorder.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<DeviceRingWriter>> Create(Descriptor memory,
                                                                                uint64_t capacity,
                                                                                std::string uuid);

  // Room for at most `bytes`, which may be written from now on; none for more than half of the
  // ring. What was reserved before and not kept is given up.
  [[nodiscard]] std::optional<uint64_t> Reserve(uint64_t bytes);
  // So many bytes of the room reserved last are to stay. REQUIRES: not more than that.
  void Keep(uint64_t bytes);

  // As DeviceRing.
  [[nodiscard]] bool Holds(uint64_t position) const;
  // Whether a reader lives: until the first one comes it is not worth writing.
  [[nodiscard]] bool wanted() const { return readers_.load(std::memory_order_relaxed) > 0; }
  // A reader, for as long as the returned object lives, which the ring must outlive.
  [[nodiscard]] std::shared_ptr<void> AddReader() const;

  [[nodiscard]] const std::string& uuid() const { return uuid_; }
  [[nodiscard]] uint64_t capacity() const { return capacity_; }
  // To hand over: of the memory, of the counters.
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
  uint64_t head_ = 0;      // Where the next room may begin.
  uint64_t reserved_ = 0;  // Bytes from there on.
};

class DeviceRingReader final : public DeviceRing {
 public:
  // Errors: SharedSegment::Map, reader.import.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const DeviceRingReader>> Import(
      DeviceRingEnds ends, const DeviceReader& reader);

  // INVALID_ARGUMENT unless there can be a piece of `bytes` at `position`.
  [[nodiscard]] absl::Status Check(uint64_t position, uint64_t bytes) const;
  const char* At(uint64_t position) const override { return data_.get() + position % capacity_; }
  bool Holds(uint64_t position) const override;
  [[nodiscard]] uint64_t capacity() const { return capacity_; }

 private:
  DeviceRingReader(std::shared_ptr<const char> data, uint64_t capacity, SharedSegment counters)
      : data_(std::move(data)), capacity_(capacity), counters_(std::move(counters)) {}
  [[nodiscard]] uint64_t announced() const;

  const std::shared_ptr<const char> data_;  // On the device.
  const uint64_t capacity_;
  const SharedSegment counters_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_SHM_DEVICE_RING_H_
