#include "tools/train/models/block_convolution.h"

#include <algorithm>

#include "tools/train/models/products.h"

namespace bastion::train {

BlockConvolution::BlockConvolution(Parameters& parameters, const std::string& prefix,
                                   const hub::ModelConfig& config)
    : config_(config.blocks.convolution) {
  if (empty()) return;
  const int64_t hidden = config.dims.hidden;
  at::Tensor identity = at::zeros({2, config_.taps, hidden}, at::kFloat);
  identity.select(1, 0).fill_(1);
  base_ = parameters.AddValues(prefix + "base_kernel", identity);
  projection_ = parameters.AddZeroMap(prefix + "kernel_projection.weight",
                                      2 * config_.taps * (hidden / config_.group), hidden);
}

at::Tensor BlockConvolution::Before(const at::Tensor& normed) const {
  return Mix(0, normed, normed);
}

at::Tensor BlockConvolution::After(const at::Tensor& normed, const at::Tensor& outputs) const {
  return Mix(1, normed, outputs);
}

at::Tensor BlockConvolution::Mix(int64_t side, const at::Tensor& normed,
                                 const at::Tensor& x) const {
  if (empty()) return x;
  const int64_t taps = config_.taps, groups = x.size(-1) / config_.group;
  const at::Tensor dynamic =
      Product(normed, projection_.narrow(0, side * taps * groups, taps * groups))
          .unflatten(-1, {taps, groups})
          .unsqueeze(-1);                                              // [B, A K, taps, G, 1]
  const at::Tensor base = base_[side].unflatten(-1, {groups, -1});     // [taps, G, group]
  const at::Tensor blocks = x.unflatten(1, {-1, config_.block_rows});  // [B, A, K, C]
  at::Tensor sum;
  for (int64_t tap = 0; tap < std::min<int64_t>(taps, config_.block_rows); ++tap) {
    const at::Tensor moved =
        at::constant_pad_nd(blocks.narrow(2, 0, config_.block_rows - tap), {0, 0, tap, 0});
    const at::Tensor term =
        moved.flatten(1, 2).unflatten(-1, {groups, -1}) * (base[tap] + dynamic.select(2, tap));
    sum = sum.defined() ? sum + term : term;
  }
  return sum.flatten(-2);
}

}  // namespace bastion::train
