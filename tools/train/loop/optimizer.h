// The optimizer: Muon for maps, AdamW for all other parameters.
//
// Muon (Jordan et al., 2024) keeps a momentum of the gradients and moves a matrix along the nearest
// semi-orthogonal matrix, which five Newton-Schulz steps approximate. Maps of equal shape are
// orthogonalized together. AdamW (Loshchilov and Hutter, 2019) runs without weight decay here.
// Not thread-safe.
#ifndef BASTION_TOOLS_TRAIN_LOOP_OPTIMIZER_H_
#define BASTION_TOOLS_TRAIN_LOOP_OPTIMIZER_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <cstdint>
#include <string>
#include <vector>

#include "tools/train/models/parameters.h"

namespace bastion::train {

struct OptimizerOptions {
  double map_rate = 0.02;                             // Peak learning rate of Muon.
  double vector_rate = 0.003;                         // Peak learning rate of AdamW.
  double momentum = 0.95;                             // Muon's decay of the momentum.
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-10;  // AdamW's.
  double clip = 0;  // Largest norm of all gradients together. 0: no limit.
};

// Approximates the nearest semi-orthogonal matrices: all singular values become 0.7 to 1.2.
// `matrices` [n, rows, columns].
[[nodiscard]] at::Tensor Orthogonalize(const at::Tensor& matrices);

class Optimizer {
 public:
  // `parameters` must outlive the optimizer.
  Optimizer(const Parameters& parameters, const OptimizerOptions& options);

  // Changes the parameters by their gradients, with the peak rates times `rate`, and clears the
  // gradients. Returns the norm of all gradients before clipping.
  double Step(double rate);

  // Its state: the moments of every parameter, and the number of steps. The tensors share memory
  // with the optimizer, so copying into them restores a state.
  struct Moment {
    std::string name;  // "momentum.", "first." or "second." and the parameter's name.
    at::Tensor value;
  };
  [[nodiscard]] const std::vector<Moment>& moments() const { return moments_; }
  [[nodiscard]] int64_t steps() const { return steps_; }
  void SetSteps(int64_t steps) { steps_ = steps; }

 private:
  struct Matrices {  // They have one shape.
    std::vector<at::Tensor> values, momentums;
  };
  struct Vector {
    at::Tensor value, first, second;
  };
  double ClipGradients();
  void StepMatrices(const Matrices& matrices, double rate) const;
  void StepVector(const Vector& vector, double rate) const;

  const Parameters& parameters_;
  const OptimizerOptions options_;
  std::vector<Matrices> matrices_;
  std::vector<Vector> vectors_;
  std::vector<Moment> moments_;
  int64_t steps_ = 0;
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_OPTIMIZER_H_
