#include "engine/model/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace bastion::nn {

Buffer Buffer::Allocate(size_t bytes) {
  constexpr size_t kAlignment = 64;
  const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, whole);
  if (memory == nullptr && whole > 0) throw std::bad_alloc();
  return Buffer(std::shared_ptr<void>(memory, std::free));
}

Buffer Buffer::Pages(size_t bytes, Paging paging) {
  if (bytes == 0) return Buffer();
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (paging == Paging::kHuge) madvise(memory, bytes, MADV_HUGEPAGE);
  return Buffer(std::shared_ptr<void>(memory, [bytes](void* data) { munmap(data, bytes); }));
}

}  // namespace bastion::nn
