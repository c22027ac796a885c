// Weights in host memory: matrices packed for linear(), norms as floats.
//
// The loader copies matrices and norms out of the checkpoint. An embedding table that has the
// engine's type is not copied: the Buffer refers to the mapped file and keeps it mapped.
#ifndef BASTION_ENGINE_MODEL_WEIGHTS_H_
#define BASTION_ENGINE_MODEL_WEIGHTS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "engine/model/buffer.h"
#include "engine/model/checkpoint_tensors.h"
#include "engine/model/packing_plan.h"
#include "kernels/ops/types.h"

namespace bastion::nn {

// A packed matrix and its memory.
struct Matrix {
  kernels::PackedMatrix packed;
  Buffer storage;
  Buffer bias;  // [N], or no memory

  // A view of the first `rows` rows.
  [[nodiscard]] kernels::PackedMatrix FirstRows(int rows) const {
    return {packed.dtype, rows, packed.columns, packed.data};
  }
};

// The weights of a norm.
struct NormWeights {
  Buffer weight;  // [C]
  Buffer bias;    // [C]; layer norms only.
};

// Reads tensors of one checkpoint and converts them to the engine's dtype and layout. It adds the
// matrices to `plan`, which must outlive the loader; they are empty until the plan has run.
class WeightLoader {
 public:
  using Norm = NormWeights;
  using Matrix = nn::Matrix;
  using Matrices = std::vector<nn::Matrix>;

  WeightLoader(std::shared_ptr<const hub::Checkpoint> checkpoint, DType dtype, PackingPlan& plan)
      : checkpoint_(std::move(checkpoint)), dtype_(dtype), plan_(plan) {}

  // The named matrices [rows_i, columns], stacked vertically and packed as one matrix.
  [[nodiscard]] absl::StatusOr<Matrix> Stacked(const std::vector<std::string>& names,
                                               const std::vector<int>& rows, int columns) const;
  // The same for ranges of rows.
  [[nodiscard]] absl::StatusOr<Matrix> Stacked(const std::vector<TensorRows>& parts,
                                               int columns) const;
  // Like Stacked, but never rounded to int8: for a small matrix whose rounding could change
  // decisions.
  [[nodiscard]] absl::StatusOr<Matrix> StackedPrecise(const std::vector<TensorRows>& parts,
                                                      int columns) const;
  // One stacked matrix for each element of `all`.
  [[nodiscard]] absl::StatusOr<Matrices> EachStacked(
      const std::vector<std::vector<TensorRows>>& all, int columns) const;
  // A read-only row-major table [rows, columns] (an embedding).
  [[nodiscard]] absl::StatusOr<Buffer> Table(const std::string& name, int rows, int columns) const;
  // A vector of floats [size].
  [[nodiscard]] absl::StatusOr<Buffer> Vector(const std::string& name, int size) const;
  // The named elements of vectors, one part after the other, as floats.
  [[nodiscard]] absl::StatusOr<Buffer> StackedVector(const std::vector<TensorRows>& parts) const;

  [[nodiscard]] bool Has(const std::string& name) const { return checkpoint_->Has(name); }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::string& folder() const { return checkpoint_->folder(); }

 private:
  [[nodiscard]] absl::StatusOr<Matrix> StackedAs(DType dtype, const std::vector<TensorRows>& parts,
                                                 int columns) const;

  std::shared_ptr<const hub::Checkpoint> checkpoint_;
  DType dtype_;
  PackingPlan& plan_;
};

// One decoder block, with an MLP or with experts.
struct BlockWeights {
  NormWeights attention_norm, mlp_norm;
  Buffer query_norm, key_norm;  // [D], or no memory
  Matrix kvq;                   // [(2G + H) D, C]: keys, values, queries
  Matrix output;                // [C, H D]
  Matrix gate_up;               // [2 I, C]: gate, up; or [I, C] for an MLP without a gate
  Matrix down;                  // [C, I]
  Matrix router;                // [E, C]
  std::vector<Matrix> expert_gate_up, expert_down;  // E x [2 I, C]; E x [C, I], I of an expert
};

[[nodiscard]] absl::StatusOr<BlockWeights> LoadBlock(const WeightLoader& loader,
                                                     const hub::ModelConfig& config, int layer);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_WEIGHTS_H_
