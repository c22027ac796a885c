// The tensors of a decoder block, by their names in a checkpoint. The loaders for the host and for
// the GPU share this list; each loader decides where it stores the tensors.
#ifndef BASTION_COMMON_NN_CHECKPOINT_TENSORS_H_
#define BASTION_COMMON_NN_CHECKPOINT_TENSORS_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/base/dtype.h"
#include "common/base/status.h"
#include "common/stages/stage_data.h"
#include "kernels/pack.h"

namespace bastion::nn {

// Loads one decoder block (Qwen3 names under `prefix`). The members attention_norm, mlp_norm,
// query_norm and key_norm of Block have the type that Loader::Vector returns; kvq, output, gate_up
// and down have the type that Loader::Stacked returns.
template <typename Block, typename Loader>
absl::StatusOr<Block> LoadBlockTensors(Loader& loader, const std::string& prefix,
                                       const ModelDims& dims) {
  const int query_width = dims.query_heads * dims.head_dim;
  const int kv_width = dims.kv_heads * dims.head_dim;
  const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
  Block block;
  ASSIGN_OR_RETURN(block.attention_norm,
                   loader.Vector(prefix + "input_layernorm.weight", dims.hidden));
  ASSIGN_OR_RETURN(block.mlp_norm,
                   loader.Vector(prefix + "post_attention_layernorm.weight", dims.hidden));
  ASSIGN_OR_RETURN(block.query_norm, loader.Vector(attention + "q_norm.weight", dims.head_dim));
  ASSIGN_OR_RETURN(block.key_norm, loader.Vector(attention + "k_norm.weight", dims.head_dim));
  ASSIGN_OR_RETURN(block.kvq,
                   loader.Stacked({attention + "k_proj.weight", attention + "v_proj.weight",
                                   attention + "q_proj.weight"},
                                  {kv_width, kv_width, query_width}, dims.hidden));
  ASSIGN_OR_RETURN(block.output,
                   loader.Stacked({attention + "o_proj.weight"}, {dims.hidden}, query_width));
  ASSIGN_OR_RETURN(block.gate_up,
                   loader.Stacked({mlp + "gate_proj.weight", mlp + "up_proj.weight"},
                                  {dims.intermediate, dims.intermediate}, dims.hidden));
  ASSIGN_OR_RETURN(block.down,
                   loader.Stacked({mlp + "down_proj.weight"}, {dims.hidden}, dims.intermediate));
  return block;
}

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_CHECKPOINT_TENSORS_H_
