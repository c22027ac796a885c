// The tensors of a decoder block, by their names in a checkpoint (common/hub/tensor_names.h). The
// loaders for the host and for the GPU share this list; each loader decides where it stores the
// tensors.
//
// A Loader has the types Norm {weight, bias}, Matrix {…, bias} and Matrices, and the functions of
// WeightLoader (engine/model/weights.h).
#ifndef BASTION_ENGINE_MODEL_CHECKPOINT_TENSORS_H_
#define BASTION_ENGINE_MODEL_CHECKPOINT_TENSORS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "common/hub/tensor_view.h"
#include "kernels/ops/pack.h"

namespace bastion::nn {

// The elements of `view`, whose rows the caller counts.
[[nodiscard]] inline kernels::SourceMatrix SourceOf(const hub::TensorView& view) {
  return {view.dtype, view.data, 0, view.blocks};
}

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

// The norm over C elements whose tensors are called name + ".weight" and name + ".bias".
template <typename Loader>
absl::StatusOr<typename Loader::Norm> LoadNorm(Loader& loader, const std::string& name,
                                               const hub::ModelConfig& config) {
  typename Loader::Norm norm;
  ASSIGN_OR_RETURN(norm.weight, loader.Vector(name + ".weight", config.dims.hidden));
  if (config.blocks.norm == hub::NormKind::kLayer) {
    ASSIGN_OR_RETURN(norm.bias, loader.Vector(name + ".bias", config.dims.hidden));
  }
  return norm;
}

// The named rows, stacked vertically as one matrix, and their biases if `bias` is true. The names
// have no suffix.
template <typename Loader>
absl::StatusOr<typename Loader::Matrix> LoadMatrix(Loader& loader, std::vector<TensorRows> parts,
                                                   int columns, bool bias) {
  std::vector<TensorRows> biases = parts;
  for (TensorRows& part : parts) part.name += ".weight";
  ASSIGN_OR_RETURN(typename Loader::Matrix matrix, loader.Stacked(parts, columns));
  if (bias) {
    for (TensorRows& part : biases) part.name += ".bias";
    ASSIGN_OR_RETURN(matrix.bias, loader.StackedVector(biases));
  }
  return matrix;
}

// The rows of the projections to keys, values and queries, in this order.
[[nodiscard]] inline std::vector<TensorRows> KvqRows(const hub::ModelConfig& config,
                                                     const std::string& block) {
  const hub::TensorNames& names = config.names;
  const ModelDims& dims = config.dims;
  if (names.fused_qkv.empty()) {
    const int kv_width = dims.kv_heads * dims.head_dim;
    return {AllRows(block + names.key, kv_width), AllRows(block + names.value, kv_width),
            AllRows(block + names.query, dims.query_heads * dims.head_dim)};
  }
  const int total = 3 * dims.query_heads * dims.head_dim;
  std::vector<TensorRows> parts;
  for (const int place : {1, 2, 0}) {  // The places of key, value and query in a head's rows.
    for (int head = 0; head < dims.query_heads; ++head) {
      const int first = (3 * head + place) * dims.head_dim;
      parts.push_back({block + names.fused_qkv, first, dims.head_dim, total});
    }
  }
  return parts;
}

// Expert e's rows of a tensor with the matrices [rows, columns] of all experts.
[[nodiscard]] inline TensorRows ExpertRowsOf(const std::string& name, int expert, int rows,
                                             int experts) {
  return {name, expert * rows, rows, experts * rows, experts};
}

// Loads the router and the experts of a block: the members router, expert_gate_up and expert_down.
template <typename Block, typename Loader>
absl::Status LoadExperts(Loader& loader, const hub::ModelConfig& config, const std::string& prefix,
                         Block& block) {
  const hub::TensorNames& names = config.names;
  const hub::ExpertsConfig& experts = config.blocks.experts;
  const int hidden = config.dims.hidden, inner = experts.intermediate;
  const bool in_one = loader.Has(prefix + names.all_gate_up);
  std::vector<std::vector<TensorRows>> gate_up, down;
  for (int e = 0; e < experts.count; ++e) {
    if (in_one) {
      gate_up.push_back({ExpertRowsOf(prefix + names.all_gate_up, e, 2 * inner, experts.count)});
      down.push_back({ExpertRowsOf(prefix + names.all_down, e, hidden, experts.count)});
      continue;
    }
    const std::string expert = absl::StrCat(prefix, names.experts, e, ".");
    gate_up.push_back({AllRows(expert + names.expert_gate + ".weight", inner),
                       AllRows(expert + names.expert_up + ".weight", inner)});
    down.push_back({AllRows(expert + names.expert_down + ".weight", hidden)});
  }
  ASSIGN_OR_RETURN(
      block.router,
      loader.StackedPrecise({AllRows(prefix + names.router + ".weight", experts.count)}, hidden));
  ASSIGN_OR_RETURN(block.expert_gate_up, loader.EachStacked(gate_up, hidden));
  ASSIGN_OR_RETURN(block.expert_down, loader.EachStacked(down, inner));
  return absl::OkStatus();
}

// Loads decoder block `layer`. The members attention_norm and mlp_norm of Block have the type
// Loader::Norm; query_norm and key_norm have the type that Loader::Vector returns; kvq, output,
// gate_up, down and router have the type Loader::Matrix; expert_gate_up and expert_down have the
// type Loader::Matrices. A block has an MLP or experts; the members of the other are empty.
template <typename Block, typename Loader>
absl::StatusOr<Block> LoadBlockTensors(Loader& loader, const hub::ModelConfig& config, int layer) {
  const hub::TensorNames& names = config.names;
  const hub::BlockConfig& form = config.blocks;
  const ModelDims& dims = config.dims;
  const std::string prefix = absl::StrCat(names.blocks, layer, ".");
  Block block;
  ASSIGN_OR_RETURN(block.attention_norm, LoadNorm(loader, prefix + names.attention_norm, config));
  ASSIGN_OR_RETURN(block.mlp_norm, LoadNorm(loader, prefix + names.mlp_norm, config));
  if (form.query_key_norm) {
    ASSIGN_OR_RETURN(block.query_norm,
                     loader.Vector(prefix + names.query_norm + ".weight", dims.head_dim));
    ASSIGN_OR_RETURN(block.key_norm,
                     loader.Vector(prefix + names.key_norm + ".weight", dims.head_dim));
  }
  ASSIGN_OR_RETURN(block.kvq,
                   LoadMatrix(loader, KvqRows(config, prefix), dims.hidden, form.qkv_bias));
  ASSIGN_OR_RETURN(block.output, LoadMatrix(loader, {AllRows(prefix + names.output, dims.hidden)},
                                            dims.query_heads * dims.head_dim, form.output_bias));
  if (config.expert_layers[layer]) {
    RETURN_IF_ERROR(LoadExperts(loader, config, prefix, block));
    return block;
  }
  std::vector<TensorRows> gate_up = {AllRows(prefix + names.up, dims.intermediate)};
  if (form.mlp == hub::MlpKind::kGatedSilu) {
    gate_up.insert(gate_up.begin(), AllRows(prefix + names.gate, dims.intermediate));
  }
  ASSIGN_OR_RETURN(block.gate_up,
                   LoadMatrix(loader, std::move(gate_up), dims.hidden, form.mlp_bias));
  ASSIGN_OR_RETURN(block.down, LoadMatrix(loader, {AllRows(prefix + names.down, dims.hidden)},
                                          dims.intermediate, form.mlp_bias));
  return block;
}

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_CHECKPOINT_TENSORS_H_
