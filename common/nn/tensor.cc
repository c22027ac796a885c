#include "common/nn/tensor.h"

#include <sys/mman.h>

#include <new>

namespace bastion::nn {

Tensor NewPages(at::IntArrayRef shape, kernels::DType dtype, Paging paging) {
  size_t bytes = kernels::BytesPerElement(dtype);
  for (const int64_t size : shape) bytes *= static_cast<size_t>(size);
  if (bytes == 0) return NewTensor(shape, dtype);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (paging == Paging::kHuge) madvise(memory, bytes, MADV_HUGEPAGE);
  return at::from_blob(
      memory, shape, [bytes](void* data) { munmap(data, bytes); },
      at::TensorOptions(ToScalarType(dtype)));
}

}  // namespace bastion::nn
