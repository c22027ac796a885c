// TensorNames: how a family of models names the tensors of its checkpoints. Plain data.
#ifndef BASTION_COMMON_HUB_TENSOR_NAMES_H_
#define BASTION_COMMON_HUB_TENSOR_NAMES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace bastion::hub {

class Checkpoint;

// The names have no suffix: a tensor is called name + ".weight" or name + ".bias". An empty name
// means that the family has no such tensor.
struct TensorNames {
  std::string embedding = "model.embed_tokens";
  std::string head = "lm_head";
  std::string final_norm = "model.norm";

  std::string blocks = "model.layers.";  // The names below follow blocks + "N.".
  std::string only_block = {};           // Not empty: they follow this, and there is one block.
  std::string attention_norm = "input_layernorm";
  std::string mlp_norm = "post_attention_layernorm";
  std::string query = "self_attn.q_proj";
  std::string key = "self_attn.k_proj";
  std::string value = "self_attn.v_proj";
  // One matrix instead of these three: for each head, the D rows of its query, then of its key,
  // then of its value.
  std::string fused_qkv = {};
  std::string output = "self_attn.o_proj";
  std::string query_norm = "self_attn.q_norm";
  std::string key_norm = "self_attn.k_norm";
  std::string gate = "mlp.gate_proj";
  std::string up = "mlp.up_proj";
  std::string down = "mlp.down_proj";

  // Blocks with convolutions: this + ".base_kernel" [2, T, C] and ".kernel_projection.weight".
  std::string attention_convolution = "attention_conv";
  std::string mlp_convolution = "mlp_conv";

  // [C, 2 C] of block N > 0, if rows are shifted: this + "(N - 1)". The name is complete but for
  // the suffix.
  std::string shift = {};

  // Blocks with experts have these instead of an MLP. The tensors of expert E follow
  // experts + "E.".
  std::string router = "mlp.gate";
  std::string experts = "mlp.experts.";
  std::string expert_gate = "gate_proj";
  std::string expert_up = "up_proj";
  std::string expert_down = "down_proj";
  // Some checkpoints have two tensors with the matrices of all experts instead: [E, 2 I, C], gate
  // and up of each expert, and [E, C, I]. Their names are complete.
  std::string all_gate_up = "mlp.experts.gate_up_proj";
  std::string all_down = "mlp.experts.down_proj";

  // What the names of block `layer` begin with.
  [[nodiscard]] std::string Block(int layer) const;
};

// UNIMPLEMENTED if the checkpoint has a tensor that Checkpoint::Tensor was never asked for: a model
// that lacks a part of its weights would compute something else. Call it after everything is
// loaded. Buffers that older versions of `transformers` saved are ignored, and the head if `tied`
// is true: the embedding is used instead. `known`: tensors of other types that were read or are not
// needed.
[[nodiscard]] absl::Status CheckAllRead(const Checkpoint& checkpoint, const TensorNames& names,
                                        bool tied, const std::vector<std::string>& known = {});

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_TENSOR_NAMES_H_
