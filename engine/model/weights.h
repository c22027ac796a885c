// Loads the weights of one checkpoint into the memory of a device.
//
// The loader copies everything out of the checkpoint, so a file that is overwritten later changes
// nothing.
#ifndef BASTION_ENGINE_MODEL_WEIGHTS_H_
#define BASTION_ENGINE_MODEL_WEIGHTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "engine/model/device.h"
#include "engine/model/matrix.h"
#include "engine/model/packing_plan.h"

namespace bastion::nn {

// Rows [first, first + rows) of a tensor, which has `total` rows.
struct TensorRows {
  std::string name;
  int first = 0;
  int rows = 0;
  int total = 0;
  int stacked = 0;  // Not 0: the tensor has the shape [stacked, total / stacked, columns].

  [[nodiscard]] std::vector<int64_t> Shape(int columns) const {
    if (stacked == 0) return {total, columns};
    return {stacked, total / stacked, columns};
  }
};

// All rows of a tensor.
[[nodiscard]] inline TensorRows AllRows(const std::string& name, int rows) {
  return {name, 0, rows, rows};
}

// The rows `chosen` of a tensor, in this order, as one part for each run of consecutive rows.
[[nodiscard]] std::vector<TensorRows> ChosenRows(const std::string& name, int total,
                                                 const std::vector<int32_t>& chosen);

// Reads tensors of one checkpoint. It adds the matrices to `plan`, which must outlive the loader;
// they are empty until the plan has run.
class WeightLoader {
 public:
  // The matrices get the format formats.weights.
  WeightLoader(Device& device, std::shared_ptr<const hub::Checkpoint> checkpoint,
               const Formats& formats, PackingPlan& plan)
      : device_(device), checkpoint_(std::move(checkpoint)), formats_(formats), plan_(plan) {}

  // The named rows [rows_i, columns], stacked vertically and packed as one matrix.
  [[nodiscard]] absl::StatusOr<Matrix> Stacked(const std::vector<TensorRows>& parts,
                                               int columns) const {
    return EachStacked({parts}, columns, formats_.weights);
  }
  // The same in another format: for a small matrix whose rounding could change decisions.
  [[nodiscard]] absl::StatusOr<Matrix> StackedAs(WeightFormat format,
                                                 const std::vector<TensorRows>& parts,
                                                 int columns) const {
    return EachStacked({parts}, columns, format);
  }
  // One stacked matrix for each element of `all`. They have equal shapes.
  [[nodiscard]] absl::StatusOr<Matrix> EachStacked(const std::vector<std::vector<TensorRows>>& all,
                                                   int columns) const {
    return EachStacked(all, columns, formats_.weights);
  }
  // The named rows and, if `bias` is true, their biases. The names have no suffix.
  [[nodiscard]] absl::StatusOr<Matrix> WithBias(std::vector<TensorRows> parts, int columns,
                                                bool bias) const;
  // A row-major table [rows, columns] of formats().activations: an embedding.
  [[nodiscard]] absl::StatusOr<Buffer> Table(const std::string& name, int rows, int columns) const;
  // A vector of floats [size].
  [[nodiscard]] absl::StatusOr<Buffer> Vector(const std::string& name, int size) const {
    return StackedVector({AllRows(name, size)});
  }
  // The named elements of vectors, one part after the other, as floats.
  [[nodiscard]] absl::StatusOr<Buffer> StackedVector(const std::vector<TensorRows>& parts) const;
  // All elements of a tensor of `shape`, as floats.
  [[nodiscard]] absl::StatusOr<Buffer> Elements(const std::string& name,
                                                absl::Span<const int64_t> shape) const;
  // The norm over C elements whose tensors are called name + ".weight" and name + ".bias".
  [[nodiscard]] absl::StatusOr<Norm> LoadNorm(const std::string& name,
                                              const hub::ModelConfig& config) const;

  [[nodiscard]] bool Has(const std::string& name) const { return checkpoint_->Has(name); }
  [[nodiscard]] const Formats& formats() const { return formats_; }
  [[nodiscard]] const std::string& folder() const { return checkpoint_->folder(); }
  [[nodiscard]] Device& device() const { return device_; }

 private:
  [[nodiscard]] absl::StatusOr<Matrix> EachStacked(const std::vector<std::vector<TensorRows>>& all,
                                                   int columns, WeightFormat format) const;

  Device& device_;
  std::shared_ptr<const hub::Checkpoint> checkpoint_;
  Formats formats_;
  PackingPlan& plan_;
};

// One decoder block, with an MLP or with experts; the members of the other are empty.
struct BlockWeights {
  Norm attention_norm, mlp_norm;
  Convolution attention_convolution, mlp_convolution;  // Or empty
  Matrix shift;                                        // [C, 2 C], or empty
  Buffer query_norm, key_norm;                         // [D], or no memory
  Matrix qkv;                          // [(2G + H) D, C]: keys, values, queries; or joined columns
  Matrix output;                       // [C, H D]
  Matrix gate_up;                      // [2 I, C]: gate, up; or [I, C] for an MLP without a gate
  Matrix down;                         // [C, I]
  Matrix router;                       // [E, C]
  Matrix expert_gate_up, expert_down;  // E x [2 I, C]; E x [C, I], I of an expert
};

// Loads block `layer`, by the names in config.names (common/hub/tensor_names.h).
[[nodiscard]] absl::StatusOr<BlockWeights> LoadBlock(const WeightLoader& loader,
                                                     const hub::ModelConfig& config, int layer);

// Embedding table and LM head, which a target owns and a block drafter borrows from it. The head of
// a drafter may have rows for some tokens only (its draft vocabulary).
struct Vocabulary {
  Buffer table;  // [V, C] of `type`, row-major
  DType type = DType::kF32;
  // [columns of the logits, C]; the same memory as the table if the checkpoint ties them and the
  // device can.
  Matrix head;
  Buffer ids;  // [columns of the logits] int32, ascending: their tokens. No memory: all V tokens.

  [[nodiscard]] int size() const { return head.rows; }
};

// A copy of `ids` in the device's memory, for Vocabulary::ids.
[[nodiscard]] absl::StatusOr<Buffer> IdsOn(Device& device, const std::vector<TokenId>& ids);

// The head has rows for `head_tokens` only (EngineOptions::head_tokens). Null: for all tokens.
[[nodiscard]] absl::StatusOr<Vocabulary> LoadVocabulary(
    const WeightLoader& loader, const hub::ModelConfig& config,
    const std::vector<TokenId>* head_tokens = nullptr);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_WEIGHTS_H_
