// The tensors of a decoder block.
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "engine/model/weights.h"

namespace bastion::nn {
namespace {

// The rows of the projections to keys, values and queries, in this order.
std::vector<TensorRows> QkvRows(const hub::ModelConfig& config, const std::string& block) {
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
TensorRows ExpertRowsOf(const std::string& name, int expert, int rows, int experts) {
  return {name, expert * rows, rows, experts * rows, experts};
}

// Loads the router and the experts of a block.
absl::Status LoadExperts(const WeightLoader& loader, const hub::ModelConfig& config,
                         const std::string& prefix, BlockWeights& block) {
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
      loader.StackedAs(UnquantizedFormat(loader.formats()),
                       {AllRows(prefix + names.router + ".weight", experts.count)}, hidden));
  ASSIGN_OR_RETURN(block.expert_gate_up, loader.EachStacked(gate_up, hidden));
  ASSIGN_OR_RETURN(block.expert_down, loader.EachStacked(down, inner));
  return absl::OkStatus();
}

// The coefficients are sums of many small products, so the projection is not rounded to int8.
absl::StatusOr<Convolution> LoadConvolution(const WeightLoader& loader,
                                            const hub::ModelConfig& config,
                                            const std::string& name) {
  const int taps = config.blocks.convolution.taps, width = config.dims.hidden;
  const int groups = width / config.blocks.convolution.group;
  Convolution convolution;
  ASSIGN_OR_RETURN(convolution.base, loader.Elements(name + ".base_kernel", {2, taps, width}));
  ASSIGN_OR_RETURN(
      convolution.projection,
      loader.StackedAs(UnquantizedFormat(loader.formats()),
                       {AllRows(name + ".kernel_projection.weight", 2 * taps * groups)}, width));
  return convolution;
}

}  // namespace

absl::StatusOr<BlockWeights> LoadBlock(const WeightLoader& loader, const hub::ModelConfig& config,
                                       int layer) {
  const hub::TensorNames& names = config.names;
  const hub::BlockConfig& form = config.blocks;
  const ModelDims& dims = config.dims;
  const std::string prefix = names.Block(layer);
  BlockWeights block;
  ASSIGN_OR_RETURN(block.attention_norm, loader.LoadNorm(prefix + names.attention_norm, config));
  ASSIGN_OR_RETURN(block.mlp_norm, loader.LoadNorm(prefix + names.mlp_norm, config));
  if (form.query_key_norm) {
    ASSIGN_OR_RETURN(block.query_norm,
                     loader.Vector(prefix + names.query_norm + ".weight", dims.head_dim));
    ASSIGN_OR_RETURN(block.key_norm,
                     loader.Vector(prefix + names.key_norm + ".weight", dims.head_dim));
  }
  const bool joined = form.join.feeds_qkv && layer == 0;
  const int inputs = joined ? form.join.parts * dims.hidden : dims.hidden;
  ASSIGN_OR_RETURN(block.qkv, loader.WithBias(QkvRows(config, prefix), inputs, form.qkv_bias));
  if (form.join.shift_rows > 0 && layer > 0) {
    const std::string shift = absl::StrCat(names.shift, layer - 1, ".weight");
    ASSIGN_OR_RETURN(block.shift, loader.Stacked({AllRows(shift, dims.hidden)}, 2 * dims.hidden));
  }
  if (form.convolution.taps > 0) {
    ASSIGN_OR_RETURN(block.attention_convolution,
                     LoadConvolution(loader, config, prefix + names.attention_convolution));
    ASSIGN_OR_RETURN(block.mlp_convolution,
                     LoadConvolution(loader, config, prefix + names.mlp_convolution));
  }
  ASSIGN_OR_RETURN(block.output,
                   loader.WithBias({AllRows(prefix + names.output, dims.hidden)},
                                   dims.query_heads * dims.head_dim, form.output_bias));
  if (config.expert_layers[layer]) {
    RETURN_IF_ERROR(LoadExperts(loader, config, prefix, block));
    return block;
  }
  std::vector<TensorRows> gate_up = {AllRows(prefix + names.up, dims.intermediate)};
  if (form.mlp == hub::MlpKind::kGatedSilu) {
    gate_up.insert(gate_up.begin(), AllRows(prefix + names.gate, dims.intermediate));
  }
  ASSIGN_OR_RETURN(block.gate_up, loader.WithBias(std::move(gate_up), dims.hidden, form.mlp_bias));
  ASSIGN_OR_RETURN(block.down, loader.WithBias({AllRows(prefix + names.down, dims.hidden)},
                                               dims.intermediate, form.mlp_bias));
  return block;
}

}  // namespace bastion::nn
