#include "common/shm/device_ring.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::wire {
namespace {

constexpr size_t kCounterBytes = 4096;

bool HoldsFrom(uint64_t position, uint64_t capacity, uint64_t announced) {
  return announced <= position || announced - position <= capacity;
}

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceRingWriter>> DeviceRingWriter::Create(Descriptor memory,
                                                                           uint64_t capacity,
                                                                           std::string uuid) {
  CHECK(capacity > 0 && capacity % kDeviceAlignment == 0) << "a ring of " << capacity << " bytes";
  ASSIGN_OR_RETURN(SharedSegment counters, SharedSegment::Create(kCounterBytes));
  return std::shared_ptr<DeviceRingWriter>(
      new DeviceRingWriter(std::move(memory), capacity, std::move(uuid), std::move(counters)));
}

std::atomic<uint64_t>& DeviceRingWriter::announced() const {
  return reinterpret_cast<DeviceRingCounters*>(counters_.data())->announced;
}

std::optional<uint64_t> DeviceRingWriter::Reserve(uint64_t bytes) {
  if (bytes > capacity_ / 2) return std::nullopt;
  uint64_t begin = (head_ + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment;
  if (begin % capacity_ + bytes > capacity_) begin = (begin / capacity_ + 1) * capacity_;
  head_ = begin;
  reserved_ = bytes;
  // The counter never decreases, even if fewer bytes of the last reservation were kept.
  if (begin + bytes > announced().load(std::memory_order_relaxed)) {
    announced().store(begin + bytes, std::memory_order_seq_cst);
  }
  return begin;
}

void DeviceRingWriter::Keep(uint64_t bytes) {
  CHECK_LE(bytes, reserved_) << "kept more bytes than were reserved";
  head_ += bytes;
  reserved_ = 0;
}

bool DeviceRingWriter::Holds(uint64_t position) const {
  return HoldsFrom(position, capacity_, announced().load(std::memory_order_seq_cst));
}

std::shared_ptr<void> DeviceRingWriter::AddReader() const {
  readers_.fetch_add(1, std::memory_order_relaxed);
  return {const_cast<DeviceRingWriter*>(this),
          [](DeviceRingWriter* ring) { ring->readers_.fetch_sub(1, std::memory_order_relaxed); }};
}

absl::StatusOr<std::shared_ptr<const DeviceRingReader>> DeviceRingReader::Import(
    DeviceRingEnds ends, const DeviceReader& reader) {
  ASSIGN_OR_RETURN(SharedSegment counters,
                   SharedSegment::Map(std::move(ends.counters), kCounterBytes));
  const std::string& uuid = ends.uuid.empty() ? reader.uuid : ends.uuid;
  ASSIGN_OR_RETURN(std::shared_ptr<const char> data,
                   reader.import({ends.memory.get(), ends.capacity, uuid}));
  return std::shared_ptr<const DeviceRingReader>(new DeviceRingReader(
      std::move(data), ends.capacity, /*on_peer=*/uuid != reader.uuid, std::move(counters)));
}

uint64_t DeviceRingReader::announced() const {
  return reinterpret_cast<const DeviceRingCounters*>(counters_.data())
      ->announced.load(std::memory_order_seq_cst);
}

absl::Status DeviceRingReader::Check(uint64_t position, uint64_t bytes) const {
  const uint64_t known = announced();
  if (position <= known && bytes <= known - position && position % kDeviceAlignment == 0 &&
      bytes <= capacity_ - position % capacity_) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("a piece of ", bytes, " bytes at position ",
                                                 position, " does not lie in the GPU's ring"));
}

bool DeviceRingReader::Holds(uint64_t position) const {
  return HoldsFrom(position, capacity_, announced());
}

}  // namespace bastion::wire
