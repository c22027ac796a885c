// Tensors that view the memory passed to a kernel, and the scope in which ATen operations run.
#ifndef BASTION_KERNELS_TORCH_TENSORS_H_
#define BASTION_KERNELS_TORCH_TENSORS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <algorithm>
#include <cstdint>

#include "kernels/ops/thread_pool.h"
#include "kernels/ops/types.h"

namespace bastion::kernels::torch {

// While an AtenScope exists, operations of this thread record no gradients and use no other
// threads.
class AtenScope {
 public:
  AtenScope() {
    // ATen stores the number of threads per calling thread.
    thread_local const bool single_threaded = [] {
      at::set_num_threads(1);
      return true;
    }();
    (void)single_threaded;
  }

 private:
  const c10::InferenceMode inference_;
};

// Calls body(begin, end) in an AtenScope on the pool's threads, for ranges that cover [0, count).
template <typename Body>
void ForRanges(ThreadPool& pool, int64_t count, int64_t grain, const Body& body) {
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    const AtenScope scope;
    body(begin, end);
  });
}

// REQUIRES: fp32 or bf16, the types of caches and embedding tables.
[[nodiscard]] inline at::ScalarType TypeOf(DType dtype) {
  return dtype == DType::kF32 ? at::kFloat : at::kBFloat16;
}

// A tensor that views the memory at `data`. Without `strides`, it is contiguous.
[[nodiscard]] inline at::Tensor View(const void* data, at::ScalarType type, at::IntArrayRef sizes) {
  return at::from_blob(const_cast<void*>(data), sizes, at::dtype(type));
}
[[nodiscard]] inline at::Tensor View(const void* data, at::ScalarType type, at::IntArrayRef sizes,
                                     at::IntArrayRef strides) {
  return at::from_blob(const_cast<void*>(data), sizes, strides, at::dtype(type));
}
[[nodiscard]] inline at::Tensor Floats(const float* data, at::IntArrayRef sizes) {
  return View(data, at::kFloat, sizes);
}
[[nodiscard]] inline at::Tensor Indices(const int32_t* data, int64_t count) {
  return View(data, at::kInt, {count});
}

// The number of table rows that the indices reach. Kernels are not told the size of the table.
template <typename Index>
[[nodiscard]] int64_t RowsSpanned(const Index* indices, int64_t count) {
  return count == 0 ? 0 : int64_t{*std::max_element(indices, indices + count)} + 1;
}

// y = x / sqrt(mean(x²) + epsilon) * weight over the last dimension.
[[nodiscard]] inline at::Tensor Normed(const at::Tensor& x, const at::Tensor& weight,
                                       double epsilon) {
  return x * (x.square().mean(-1, /*keepdim=*/true) + epsilon).rsqrt() * weight;
}

}  // namespace bastion::kernels::torch

#endif  // BASTION_KERNELS_TORCH_TENSORS_H_
