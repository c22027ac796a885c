// The pieces of decoders, written with ATen operations that record gradients. They compute what
// engine/model computes. Shape legend: common/base/ids.h; N is any number of leading dimensions.
#ifndef BASTION_TOOLS_TRAIN_MODELS_LAYERS_H_
#define BASTION_TOOLS_TRAIN_MODELS_LAYERS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <optional>
#include <string>

#include "common/hub/model_config.h"
#include "tools/train/models/block_convolution.h"
#include "tools/train/models/parameters.h"

namespace bastion::train {

// x / rms(x) · weight over the last dimension [C].
[[nodiscard]] at::Tensor RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon);

// Cosines and sines of positions: [N, T, 1, d / 2] each, where d elements of a head rotate.
struct Rotation {
  at::Tensor cosines, sines;
};

// A rotary table for positions in [0, limit).
class Rotary {
 public:
  Rotary(const hub::RopeConfig& rope, int limit);
  // `positions` [N, T] of int64.
  [[nodiscard]] Rotation At(const at::Tensor& positions) const;

 private:
  at::Tensor table_;  // [limit, d]: cosines, then sines
};

// Keys and values [B, G, T, D].
struct KeysValues {
  at::Tensor keys, values;

  // These rows, then those of `later`.
  [[nodiscard]] KeysValues Then(const KeysValues& later) const;
};

// A decoder block with RMS norms, attention without biases and a gated MLP: the block of Qwen3,
// and of Llama without query_key_norm. With join.feeds_qkv, the attention of EAGLE-3 reads rows of
// twice the width, which the caller joins: "normed" rows are [B, T, 2 C]. With convolutions, the
// rows are those of whole blocks, and attention reads Mixed(InputNorm(x)).
class DecoderLayer {
 public:
  // Adds the block's parameters under `prefix`, e.g. "layers.0.". The matrices that write to the
  // residual stream begin at zero.
  DecoderLayer(Parameters& parameters, const std::string& prefix, const hub::ModelConfig& config);

  // [B, T, C] -> [B, T, C] before attention.
  [[nodiscard]] at::Tensor InputNorm(const at::Tensor& x) const;
  // Normed rows [B, T, C] after the convolution before attention. Without one, they stay the same.
  [[nodiscard]] at::Tensor Mixed(const at::Tensor& normed) const {
    return attention_mix_.Before(normed);
  }
  // Keys and values of normed rows [B, T, C].
  [[nodiscard]] KeysValues Project(const at::Tensor& normed, const Rotation& rotation) const;
  // Queries [B, H, T, D] of normed rows.
  [[nodiscard]] at::Tensor Queries(const at::Tensor& normed, const Rotation& rotation) const;
  // The block on rows x [B, T, C] after attention, which returned `attended` [B, H, T, D].
  [[nodiscard]] at::Tensor Finish(const at::Tensor& x, const at::Tensor& attended) const;
  // The block on rows x [B, T, C] that see `visible`. mask [.., T, S]: true where a row sees a key.
  // Without a mask, row t sees keys 0 to t.
  [[nodiscard]] at::Tensor Forward(const at::Tensor& x, const at::Tensor& normed,
                                   const Rotation& rotation, const KeysValues& visible,
                                   const std::optional<at::Tensor>& mask = std::nullopt) const;

 private:
  [[nodiscard]] at::Tensor Heads(const at::Tensor& x, const at::Tensor& weight) const;
  [[nodiscard]] at::Tensor HeadNorm(const at::Tensor& x, const at::Tensor& weight) const;

  double epsilon_;
  int64_t head_dim_, group_;  // Queries that share a key.
  at::Tensor query_, key_, value_, output_;
  at::Tensor query_norm_, key_norm_;  // Undefined without query_key_norm.
  at::Tensor gate_, up_, down_;
  at::Tensor input_norm_, mlp_norm_;
  BlockConvolution attention_mix_, mlp_mix_;
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_LAYERS_H_
