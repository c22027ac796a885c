// Weights in host memory: matrices packed for linear(), norms as floats.
//
// The loader copies matrices and norms out of the checkpoint. An embedding table that has the
// engine's type is not copied: the Buffer refers to the mapped file and keeps it mapped.
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

// A packed matrix and its memory.
struct Matrix {
  kernels::PackedMatrix packed;
  Buffer storage;

  // A view of the first `rows` rows.
  [[nodiscard]] kernels::PackedMatrix FirstRows(int rows) const {
    return {packed.dtype, rows, packed.columns, packed.data};
  }
};

// Reads tensors of one checkpoint and converts them to the engine's dtype and layout. It adds the
// matrices to `plan`, which must outlive the loader; they are empty until the plan has run.
class WeightLoader {
 public:
  WeightLoader(std::shared_ptr<const hub::Checkpoint> checkpoint, DType dtype, PackingPlan& plan)
      : checkpoint_(std::move(checkpoint)), dtype_(dtype), plan_(plan) {}

  // The named matrices [rows_i, columns], stacked vertically and packed as one matrix.
  [[nodiscard]] absl::StatusOr<Matrix> Stacked(const std::vector<std::string>& names,
                                               const std::vector<int>& rows, int columns) const;
  // A read-only row-major table [rows, columns] (an embedding).
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
