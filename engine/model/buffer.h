// Buffer: memory that the engine owns or borrows. Kernels get raw pointers into it.
//
// Copies share the memory; destroying the last copy frees it. Each declaration of a buffer gives
// its shape in the letters of common/base/ids.h. Thread-compatible.
#ifndef BASTION_ENGINE_MODEL_BUFFER_H_
#define BASTION_ENGINE_MODEL_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace bastion::nn {

// kHuge asks the system for huge pages. They are faster to allocate and to read, but waste memory
// unless all of it is used.
enum class Paging { kSmall, kHuge };

class Buffer {
 public:
  Buffer() = default;  // No memory.

  // `bytes` of uninitialized memory, 64-byte aligned. Throws std::bad_alloc if out of memory.
  [[nodiscard]] static Buffer Allocate(size_t bytes);
  // `bytes` of zeroed memory in separate pages. The system allocates each page at its first write.
  // Throws std::bad_alloc if the address space is exhausted.
  [[nodiscard]] static Buffer Pages(size_t bytes, Paging paging);
  // Read-only memory at `data`, kept alive by `owner`.
  [[nodiscard]] static Buffer Borrow(const void* data, std::shared_ptr<const void> owner) {
    return Buffer(std::shared_ptr<void>(std::move(owner), const_cast<void*>(data)));
  }

  [[nodiscard]] void* data() const { return data_.get(); }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data_.get());
  }

 private:
  explicit Buffer(std::shared_ptr<void> data) : data_(std::move(data)) {}

  std::shared_ptr<void> data_;
};

// A buffer of floats that keeps its memory between calls.
class Scratch {
 public:
  // Memory for [rows, width] floats. A call that needs more memory discards the contents.
  float* Reserve(int64_t rows, int64_t width) {
    if (rows * width > floats_) {
      floats_ = rows * width;
      buffer_ = Buffer::Allocate(static_cast<size_t>(floats_) * sizeof(float));
    }
    return buffer_.as<float>();
  }

 private:
  Buffer buffer_;
  int64_t floats_ = 0;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_BUFFER_H_
