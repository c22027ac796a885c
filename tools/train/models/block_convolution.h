// The convolutions of DFlash 2 around a sublayer: one before it, one after it. Row i of a block
// becomes Σ_tap (base[tap] + d_i[tap]) · row i − tap, with zeros before the first row. d_i is a
// projection of the normed row i; each of its elements counts for a group of elements of the row.
#ifndef BASTION_TOOLS_TRAIN_MODELS_BLOCK_CONVOLUTION_H_
#define BASTION_TOOLS_TRAIN_MODELS_BLOCK_CONVOLUTION_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <string>

#include "common/hub/model_config.h"
#include "tools/train/models/parameters.h"

namespace bastion::train {

class BlockConvolution {
 public:
  BlockConvolution() = default;  // Leaves rows as they are.
  // Adds the parameters under `prefix`, e.g. "layers.0.mlp_conv.". At first, rows stay as they are.
  BlockConvolution(Parameters& parameters, const std::string& prefix,
                   const hub::ModelConfig& config);

  [[nodiscard]] bool empty() const { return config_.taps == 0; }

  // All rows are those of whole blocks, [B, A K, C].
  // The input of the sublayer, from its normed rows.
  [[nodiscard]] at::Tensor Before(const at::Tensor& normed) const;
  // What the sublayer adds, from its normed rows and its outputs.
  [[nodiscard]] at::Tensor After(const at::Tensor& normed, const at::Tensor& outputs) const;

 private:
  [[nodiscard]] at::Tensor Mix(int64_t side, const at::Tensor& normed, const at::Tensor& x) const;

  hub::ConvolutionConfig config_;
  at::Tensor base_;        // [2, taps, C]
  at::Tensor projection_;  // [2 · taps · C / group, C]
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_BLOCK_CONVOLUTION_H_
