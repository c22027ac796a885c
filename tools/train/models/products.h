// Matrix products of training, in fp32 or in bf16. A CPU with bf16 instructions multiplies bf16
// numbers at least twice as fast. Parameters, gradients and everything else stay fp32.
#ifndef BASTION_TOOLS_TRAIN_MODELS_PRODUCTS_H_
#define BASTION_TOOLS_TRAIN_MODELS_PRODUCTS_H_

#include "kernels/torch/torch.h"

namespace bastion::train {

// rows [.., C] times the transpose of `matrix` [D, C]: [.., D] of fp32. Records gradients.
[[nodiscard]] at::Tensor Product(const at::Tensor& rows, const at::Tensor& matrix);

// Products of matrices: one [.., N, C] times other [.., C, D], [.., N, D] of fp32. Records
// gradients.
[[nodiscard]] at::Tensor BatchProduct(const at::Tensor& one, const at::Tensor& other);

// The type in which this thread multiplies: fp32 or bf16.
[[nodiscard]] at::ScalarType ProductType();

// While an object with `enabled` exists, the products of its thread and their gradients round their
// operands and results to bf16. Sums are fp32.
class Bf16Products {
 public:
  explicit Bf16Products(bool enabled);
  ~Bf16Products();
  Bf16Products(const Bf16Products&) = delete;
  Bf16Products& operator=(const Bf16Products&) = delete;

 private:
  const bool before_;
};

// Whether this CPU has instructions for bf16 products.
[[nodiscard]] bool HasFastBf16Products();

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_PRODUCTS_H_
