// Features: hidden states of the target for the committed tokens of one sequence. Some drafters
// read them. Plain data: rows of F values, fp32 or bf16, little-endian. A row is the concatenated
// outputs of the layers that the drafter chose.
//
// Between two processes on one GPU, or on two GPUs that are peers, features can stay in GPU memory.
// A drafter that passes a DeviceReader may receive DeviceRows instead of bytes; any other drafter
// receives bytes.
#ifndef BASTION_COMMON_STAGES_FEATURES_H_
#define BASTION_COMMON_STAGES_FEATURES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/dtype.h"
#include "common/base/ids.h"

namespace bastion {

// A ring buffer in GPU memory that another process writes and this process reads. Positions count
// the bytes written since the ring was created; they never wrap. Thread-safe.
class DeviceRing {
 public:
  virtual ~DeviceRing() = default;
  // Device address of the byte at `position`. Call Holds after reading, not before.
  [[nodiscard]] virtual const char* At(uint64_t position) const = 0;
  // True if no byte from `position` on has been overwritten.
  [[nodiscard]] virtual bool Holds(uint64_t position) const = 0;
};

// Contiguous feature rows in a DeviceRing.
struct DeviceRows {
  std::shared_ptr<const DeviceRing> ring;  // Null: no rows.
  uint64_t position = 0;                   // Where the first row begins in the ring.
  int rows = 0;

  [[nodiscard]] const char* data() const { return ring->At(position); }
  // True if no row has been overwritten. Call it after reading.
  [[nodiscard]] bool intact() const { return ring->Holds(position); }
};

// Memory of the GPU `uuid` that another process exported.
struct ExportedMemory {
  int descriptor = -1;
  uint64_t bytes = 0;
  std::string uuid;
};

// How a drafter on a GPU reads features from GPU memory.
struct DeviceReader {
  std::string uuid;          // UUID of the GPU.
  DType type = DType::kF32;  // The only element type that the drafter reads on the device.
  // Maps memory of this GPU or of a peer. The mapping lives as long as the returned pointer. The
  // caller still owns the descriptor.
  std::function<absl::StatusOr<std::shared_ptr<const char>>(const ExportedMemory&)> import;
  std::vector<std::string> peers = {};  // UUIDs of other GPUs whose memory this one can read.
};

struct Features {
  int width = 0;             // F
  DType type = DType::kF32;  // kF32 or kBF16
  std::string bytes;         // [rows, F]
  // The token after the last row: the root of the next draft. kNoToken if the target has not chosen
  // it yet (a prefill does not choose a token).
  TokenId next = kNoToken;
  DeviceRows device = {};  // Replaces `bytes` if the rows are in GPU memory.

  [[nodiscard]] bool on_device() const { return device.ring != nullptr; }
  [[nodiscard]] size_t row_bytes() const { return Bytes(type, width); }
  [[nodiscard]] int rows() const {
    if (on_device()) return device.rows;
    return width == 0 ? 0 : static_cast<int>(bytes.size() / row_bytes());
  }
};

// Selects the rows of tokens [first, first + count) of a sequence.
struct FeatureRange {
  SequenceId sequence;
  Position first = 0;
  int count = 0;
  bool may_be_on_device = false;  // False: the reader accepts bytes only.
};

// Where a drafter gets features from: a verifier in the same process or a stream from a verifier
// service.
class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  // Waits up to `timeout` until all rows of `range` exist, then returns them. A reader that accepts
  // device rows may get only the first rows of `range`, up to the end of contiguous device memory.
  // NOT_FOUND: unknown sequence. OUT_OF_RANGE: the rows were discarded. DEADLINE_EXCEEDED: the rows
  // do not exist yet.
  [[nodiscard]] virtual absl::StatusOr<Features> Read(const FeatureRange& range,
                                                      absl::Duration timeout) = 0;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_FEATURES_H_
