// Weights as the engine holds them: matrices packed for linear(), norms as floats.
//
// A model is a table: which tensors a block has is fixed by the architecture's names here, their
// shapes by the dims. Data is copied out of the checkpoint, which need not outlive the model.
#ifndef BASTION_COMMON_NN_WEIGHTS_H_
#define BASTION_COMMON_NN_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/checkpoint.h"
#include "common/nn/tensor.h"
#include "common/tree/stage_data.h"
#include "kernels/types.h"

namespace bastion::nn {

// A packed matrix and the memory it lives in.
struct Matrix {
  kernels::PackedMatrix packed;
  Tensor storage;

  // The first `rows` rows as a matrix of their own.
  [[nodiscard]] kernels::PackedMatrix FirstRows(int rows) const {
    return {packed.dtype, rows, packed.columns, packed.data};
  }
};

// Reads tensors of one checkpoint and brings them into the engine's dtype and layout.
class WeightLoader {
 public:
  WeightLoader(const hub::Checkpoint& checkpoint, kernels::DType dtype)
      : checkpoint_(checkpoint), dtype_(dtype) {}

  // The named matrices [rows_i, columns] stacked into one and packed.
  [[nodiscard]] absl::StatusOr<Matrix> Stacked(const std::vector<std::string>& names,
                                               const std::vector<int>& rows, int columns) const;
  // A row-major table [rows, columns] (an embedding).
  [[nodiscard]] absl::StatusOr<Tensor> Table(const std::string& name, int rows, int columns) const;
  // A vector of floats [size].
  [[nodiscard]] absl::StatusOr<Tensor> Vector(const std::string& name, int size) const;

  [[nodiscard]] kernels::DType dtype() const { return dtype_; }
  [[nodiscard]] bool Has(const std::string& name) const;

 private:
  [[nodiscard]] absl::StatusOr<Tensor> Read(const std::string& name,
                                            const std::vector<int64_t>& shape,
                                            kernels::DType dtype) const;

  const hub::Checkpoint& checkpoint_;
  kernels::DType dtype_;
};

// One decoder block (Qwen3 names under `prefix`, e.g. "model.layers.3.").
struct BlockWeights {
  Tensor attention_norm, mlp_norm;  // [C]
  Tensor query_norm, key_norm;      // [D]
  Matrix kvq;                       // [(2G + H) D, C]: keys, values, queries
  Matrix output;                    // [C, H D]
  Matrix gate_up;                   // [2 I, C]: gate, up
  Matrix down;                      // [C, I]
};

[[nodiscard]] absl::StatusOr<BlockWeights> LoadBlock(const WeightLoader& loader,
                                                     const std::string& prefix,
                                                     const ModelDims& dims);

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_WEIGHTS_H_
