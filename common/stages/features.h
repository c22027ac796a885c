// Features: the target's hidden states that a drafter reads, for the committed tokens of one
// sequence. Plain data: rows of F values (the outputs of the wanted layers side by side), fp32 or
// bf16, in the byte order of the machine (little-endian everywhere this runs).
//
// Between two processes on one GPU they can stay in its memory: a drafter that says how it reads
// there (DeviceReader) may be given DeviceRows instead of bytes, and nobody else is.
#ifndef BASTION_COMMON_STAGES_FEATURES_H_
#define BASTION_COMMON_STAGES_FEATURES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/dtype.h"
#include "common/base/ids.h"

namespace bastion {

// A ring in a GPU's memory, mapped here to be read while another process goes on writing it.
// Positions count bytes since it began and never wrap. Thread-safe.
class DeviceRing {
 public:
  virtual ~DeviceRing() = default;
  // Where the byte at `position` lies on the device. Ask Holds after reading, not before.
  [[nodiscard]] virtual const char* At(uint64_t position) const = 0;
  // Whether nothing from `position` on was overwritten so far.
  [[nodiscard]] virtual bool Holds(uint64_t position) const = 0;
};

// Rows in such a ring, in one piece.
struct DeviceRows {
  std::shared_ptr<const DeviceRing> ring;  // Null: there are none.
  uint64_t position = 0;
  int rows = 0;

  [[nodiscard]] const char* data() const { return ring->At(position); }
  [[nodiscard]] bool intact() const { return ring->Holds(position); }
};

// How a drafter on a GPU reads features in that GPU's memory.
struct DeviceReader {
  std::string uuid;          // Of the GPU.
  DType type = DType::kF32;  // The only one that it takes there.
  // Maps memory that another process exported, until the last pointer to it goes. The descriptor
  // stays the caller's.
  std::function<absl::StatusOr<std::shared_ptr<const char>>(int descriptor, uint64_t bytes)> import;
};

struct Features {
  int width = 0;             // F
  DType type = DType::kF32;  // kF32 or kBF16
  std::string bytes;         // [rows, F]
  // The token after the last row once the target has chosen it, which a verify does and a prefill
  // does not: the root of the next draft.
  TokenId next = kNoToken;
  DeviceRows device = {};  // Instead of bytes.

  [[nodiscard]] bool on_device() const { return device.ring != nullptr; }
  [[nodiscard]] size_t row_bytes() const {
    return static_cast<size_t>(width) * BytesPerElement(type);
  }
  [[nodiscard]] int rows() const {
    if (on_device()) return device.rows;
    return width == 0 ? 0 : static_cast<int>(bytes.size() / row_bytes());
  }
};

// Which rows: tokens [first, first + count) of a sequence.
struct FeatureRange {
  SequenceId sequence;
  Position first = 0;
  int count = 0;
  bool may_be_on_device = false;  // Else as bytes.
};

// Where a drafter gets features from: the verifier in the same process, or its stream.
class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  // Rows from `range.first` on, once all of the range are there: exactly `range.count` of them, but
  // for rows that may be on a device, of which only those come that lie in one piece. NOT_FOUND:
  // unknown sequence; OUT_OF_RANGE: not there any more; DEADLINE_EXCEEDED: not there yet.
  [[nodiscard]] virtual absl::StatusOr<Features> Read(const FeatureRange& range,
                                                      absl::Duration patience) = 0;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_FEATURES_H_
