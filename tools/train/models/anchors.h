// Anchors: the places in the texts where a step drafts. A row of texts [B] has A anchors each.
#ifndef BASTION_TOOLS_TRAIN_MODELS_ANCHORS_H_
#define BASTION_TOOLS_TRAIN_MODELS_ANCHORS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <algorithm>

#include "tools/train/models/draws.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

// [B, A] Sorted positions of tokens that the target wrote, each with at least `labels` tokens after
// it. REQUIRES: the target wrote more than `labels` tokens of each text.
inline at::Tensor DrawAnchors(const TextBatch& batch, int64_t count, int64_t labels, Draws& draws) {
  const int64_t texts = batch.tokens.size(0);
  const at::Tensor anchors = at::empty({texts, count}, at::kLong);
  int64_t* const places = anchors.data_ptr<int64_t>();
  for (int64_t b = 0; b < texts; ++b) {
    const auto first = batch.prompts[b].item<int64_t>();
    const int64_t last = batch.lengths[b].item<int64_t>() - labels - 1;
    int64_t* const row = places + b * count;
    std::generate_n(row, count, [&] { return first + draws.Below(last - first + 1); });
    std::sort(row, row + count);
  }
  return anchors;
}

// [B, A, n] For each anchor, the positions anchor + offset, …, anchor + offset + n − 1.
inline at::Tensor PositionsFrom(const at::Tensor& anchors, int64_t offset, int64_t count) {
  return anchors.unsqueeze(-1) + at::arange(offset, offset + count, at::kLong);
}

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_ANCHORS_H_
