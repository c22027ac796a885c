// Buffer: memory that the engine owns or borrows. Kernels get raw pointers into it.
//
// A copy refers to the same memory, which is freed with the last copy. Shapes are written in the
// legend's letters (common/base/ids.h) where a buffer is declared. Thread-compatible.
#ifndef BASTION_COMMON_NN_BUFFER_H_
#define BASTION_COMMON_NN_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace bastion::nn {

// kHuge asks the system for huge pages. They are faster to allocate and to walk through, and worth
// it where all of the memory will be used.
enum class Paging { kSmall, kHuge };

class Buffer {
 public:
  Buffer() = default;  // No memory.

  // `bytes` of uninitialized memory, 64-byte aligned. Throws std::bad_alloc when there is none.
  [[nodiscard]] static Buffer Allocate(size_t bytes);
  // `bytes` of zeros in pages of their own. The system provides each page when it is first
  // written. Throws std::bad_alloc when there is no address space left.
  [[nodiscard]] static Buffer Pages(size_t bytes, Paging paging);
  // Memory at `data` that `owner` keeps alive. It must only be read.
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
  // Memory for [rows, width] floats. Its contents are lost when it grows.
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

#endif  // BASTION_COMMON_NN_BUFFER_H_
