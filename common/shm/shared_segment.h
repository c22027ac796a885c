// SharedSegment: memory that one process writes and its peer can only read.
//
// A memfd sealed so that nobody can resize it or map it for writing again: a peer that was handed
// the descriptor can neither change what is read there nor cut it short under the reader's feet.
// There is no name to guess, and nothing is left behind by a crash.
#ifndef BASTION_COMMON_SHM_SHARED_SEGMENT_H_
#define BASTION_COMMON_SHM_SHARED_SEGMENT_H_

#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace bastion::wire {

// A file descriptor, closed when it goes.
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

 private:
  int descriptor_;
};

class SharedSegment {
 public:
  // Memory of ours: zeroed, mapped for writing here and, being sealed, nowhere else.
  [[nodiscard]] static absl::StatusOr<SharedSegment> Create(size_t bytes);
  // The peer's, mapped for reading. INVALID_ARGUMENT unless it is sealed as Create does it and has
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
