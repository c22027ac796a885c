// What loaders for the host and for a GPU know alike: which tensors a decoder block has, by their
// names in a checkpoint, and what type their elements are. Where they are brought is the loader's.
#ifndef BASTION_COMMON_NN_CHECKPOINT_TENSORS_H_
#define BASTION_COMMON_NN_CHECKPOINT_TENSORS_H_

#include <string>

#include "absl/status/statusor.h"
#include "common/base/dtype.h"
#include "common/base/status.h"
#include "common/stages/stage_data.h"
#include "kernels/pack.h"

namespace bastion::nn {

// One decoder block (Qwen3 names under `prefix`). A Block has attention_norm, mlp_norm, query_norm
// and key_norm, which are the Loader's Vector, and kvq, output, gate_up and down, its Stacked.
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
