// Weights as the engine holds them: matrices packed for linear(), norms as floats.
//
// A model is a table: which tensors a block has is fixed by the architecture's names here, their
// shapes by the dims. Matrices and norms are copied out of the checkpoint; an embedding table of
// the right type stays where it is, in the mapped file, and keeps it mapped.
#ifndef BASTION_COMMON_NN_WEIGHTS_H_
#define BASTION_COMMON_NN_WEIGHTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/checkpoint.h"
#include "common/nn/buffer.h"
#include "common/nn/packing_plan.h"
#include "common/stages/stage_data.h"
#include "kernels/types.h"

namespace bastion::nn {

// A packed matrix and the memory it lives in.
struct Matrix {
  kernels::PackedMatrix packed;
  Buffer storage;

  // The first `rows` rows as a matrix of their own.
  [[nodiscard]] kernels::PackedMatrix FirstRows(int rows) const {
    return {packed.dtype, rows, packed.columns, packed.data};
  }
};

// Reads tensors of one checkpoint and brings them into the engine's dtype and layout. Matrices are
// left to `plan`, which must outlive the loader: they are empty until it is run.
class WeightLoader {
 public:
  WeightLoader(std::shared_ptr<const hub::Checkpoint> checkpoint, DType dtype, PackingPlan& plan)
      : checkpoint_(std::move(checkpoint)), dtype_(dtype), plan_(plan) {}

  // The named matrices [rows_i, columns] stacked into one and packed.
  [[nodiscard]] absl::StatusOr<Matrix> Stacked(const std::vector<std::string>& names,
                                               const std::vector<int>& rows, int columns) const;
  // A row-major table [rows, columns] (an embedding), only to be read.
  [[nodiscard]] absl::StatusOr<Buffer> Table(const std::string& name, int rows, int columns) const;
  // A vector of floats [size].
  [[nodiscard]] absl::StatusOr<Buffer> Vector(const std::string& name, int size) const;

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::string& folder() const { return checkpoint_->folder(); }

 private:
  std::shared_ptr<const hub::Checkpoint> checkpoint_;
  DType dtype_;
  PackingPlan& plan_;
};

// One decoder block (Qwen3 names under `prefix`, e.g. "model.layers.3.").
struct BlockWeights {
  Buffer attention_norm, mlp_norm;  // [C]
  Buffer query_norm, key_norm;      // [D]
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
