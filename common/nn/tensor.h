// Tensors of the engine: at::Tensor owns memory, kernels get raw pointers. This header and
// weights.h are the only places of common/nn that know torch.
//
// Shapes are written in the legend's letters (common/base/ids.h) beside each tensor, and the same
// dimensions are checked when one is made.
#ifndef BASTION_COMMON_NN_TENSOR_H_
#define BASTION_COMMON_NN_TENSOR_H_

#include <ATen/ATen.h>

#include "common/base/check.h"
#include "kernels/types.h"

namespace bastion::nn {

using Tensor = at::Tensor;

[[nodiscard]] inline at::ScalarType ToScalarType(kernels::DType dtype) {
  return dtype == kernels::DType::kF32    ? at::kFloat
         : dtype == kernels::DType::kBF16 ? at::kBFloat16
                                          : at::kChar;
}

// Uninitialised, contiguous, 64-byte aligned.
[[nodiscard]] inline Tensor NewTensor(at::IntArrayRef shape, kernels::DType dtype) {
  return at::empty(shape, at::TensorOptions(ToScalarType(dtype)));
}

enum class Paging { kSmall, kHuge };

// Zeros, contiguous, in pages of their own. They take memory only as it is written: page by page,
// or where the system has huge pages and is asked for them, in those. They are quicker to take and
// to walk through, and worth it where all of the memory will be used.
[[nodiscard]] Tensor NewPages(at::IntArrayRef shape, kernels::DType dtype, Paging paging);

// A float buffer of at least `rows` x `width` that keeps its memory between calls.
class Scratch {
 public:
  float* Reserve(int64_t rows, int64_t width) {
    if (!tensor_.defined() || tensor_.numel() < rows * width) {
      tensor_ = NewTensor({rows * width}, kernels::DType::kF32);
    }
    return tensor_.data_ptr<float>();
  }

 private:
  Tensor tensor_;
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_TENSOR_H_
