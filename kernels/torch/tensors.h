// Tensors over the memory that a kernel is given, and the scope in which ATen works on them.
#ifndef BASTION_KERNELS_TORCH_TENSORS_H_
#define BASTION_KERNELS_TORCH_TENSORS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <algorithm>
#include <cstdint>

#include "kernels/thread_pool.h"
#include "kernels/types.h"

namespace bastion::kernels::torch {

// While it lives, this thread's operations record no gradients and use no other thread.
class AtenScope {
 public:
  AtenScope() {
    // ATen keeps the number of threads for each thread that calls it.
    thread_local const bool alone = [] {
      at::set_num_threads(1);
      return true;
    }();
    (void)alone;
  }

 private:
  const c10::InferenceMode inference_;
};

// body(begin, end) on ranges that cover [0, count), in an AtenScope, on the pool's threads.
template <typename Body>
void ForRanges(ThreadPool& pool, int64_t count, int64_t grain, const Body& body) {
  pool.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    const AtenScope scope;
    body(begin, end);
  });
}

// REQUIRES: a type that caches and tables have.
[[nodiscard]] inline at::ScalarType TypeOf(DType dtype) {
  return dtype == DType::kF32 ? at::kFloat : at::kBFloat16;
}

// The memory at `data` as a tensor; of contiguous rows if there are no strides.
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

// How many rows a table has at least that `count` indices look into: a kernel is not told.
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
