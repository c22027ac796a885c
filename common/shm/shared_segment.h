// SharedSegment: memory that one process writes and its peer can only read. Thread-compatible.
//
// It is a memfd, sealed against resizing and against further writable mappings. So a peer that
// receives the descriptor can neither change the contents nor truncate the file. A memfd has no
// name to guess, and a crash leaves nothing behind.
#ifndef BASTION_COMMON_SHM_SHARED_SEGMENT_H_
#define BASTION_COMMON_SHM_SHARED_SEGMENT_H_

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bastion::wire {

// Owns a file descriptor and closes it.
class Descriptor {
 public:
  explicit Descriptor(int descriptor = -1) : descriptor_(descriptor) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  [[nodiscard]] int get() const { return descriptor_; }
  [[nodiscard]] bool valid() const { return descriptor_ >= 0; }
  // Leaves the descriptor to the caller.
  [[nodiscard]] int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

class SharedSegment {
 public:
  // Creates `bytes` of zeroed memory. Only this mapping is writable. Returns the error of a failed
  // system call.
  [[nodiscard]] static absl::StatusOr<SharedSegment> Create(size_t bytes);
  // Maps a peer's segment read-only. INVALID_ARGUMENT unless it has the seals that Create sets and
  // exactly `bytes`.
  [[nodiscard]] static absl::StatusOr<SharedSegment> Map(Descriptor descriptor, size_t bytes);

  ~SharedSegment();
  SharedSegment(SharedSegment&& other) noexcept
      : descriptor_(std::move(other.descriptor_)),
        data_(std::exchange(other.data_, nullptr)),
        bytes_(other.bytes_) {}
  SharedSegment& operator=(SharedSegment&&) = delete;

  [[nodiscard]] char* data() const { return data_; }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }

 private:
  SharedSegment(Descriptor descriptor, char* data, size_t bytes)
      : descriptor_(std::move(descriptor)), data_(data), bytes_(bytes) {}

  Descriptor descriptor_;
  char* data_;
  size_t bytes_;
};

}  // namespace bastion::wire

#endif  // BASTION_COMMON_SHM_SHARED_SEGMENT_H_
