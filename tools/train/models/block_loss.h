// The masks, weights and losses of SpecBlock's blocks. M: blocks per anchor. N: anchors. K: places
// of a block.
#ifndef BASTION_TOOLS_TRAIN_MODELS_BLOCK_LOSS_H_
#define BASTION_TOOLS_TRAIN_MODELS_BLOCK_LOSS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <cstdint>
#include <vector>

namespace bastion::train {

inline constexpr int kRankFeatures = 15;
inline constexpr int kRankClasses = 4;

// Rows of a drafter in front of its head, and what the target predicts at the same places.
struct RankingArgs {
  at::Tensor rows;         // [N, C] The drafter's normed outputs.
  at::Tensor head;         // [D, C] The drafter's.
  at::Tensor teacher;      // [N, C] The target's inputs of its head.
  at::Tensor target_head;  // [V, C]
  at::Tensor columns;      // [V] The column of a token in the drafter's logits, or −1.
  int64_t top = 0;         // How many of the largest logits of a row are wanted.
};

struct Ranking {
  at::Tensor labels;  // [N] int64: the column of the target's most probable token, or −1.
  // [N] int64: the rank of the label among the columns, from 1. Among equal logits, the lowest
  // column comes first. 0: no label.
  at::Tensor ranks;
  at::Tensor top;  // [N, top] The largest logits, in decreasing order.
};

// Records no gradients. Works on a few hundred rows at a time.
[[nodiscard]] Ranking RankLabels(const RankingArgs& args);

// [M, N, K] bool: all places before a place in its block have the right token. `right` [M, N, K]
// bool. starts [M - 1]: the place, from 1, of the block before at which a later block starts. With
// `carries`, a later block begins with the mask of this place. Else every block begins with true.
[[nodiscard]] at::Tensor ValidPrefix(const at::Tensor& right, const std::vector<int64_t>& starts,
                                     bool carries);

// [M, N, K] The weights of places, which sum to 1. The places of a column (block, k) that count
// share a weight proportional to decay^(k - 1). A column in which fewer than an eighth of the
// anchors count has less: else the few places that are valid in the beginning would count more than
// all others.
[[nodiscard]] at::Tensor PlaceWeights(const at::Tensor& counts, double decay);

// [..] int64: the class of a rank. 0: rank 1. 1: ranks 2 to 4. 2: ranks 5 to 10. 3: beyond 10.
// −1: rank 0, no label.
[[nodiscard]] at::Tensor RankClasses(const at::Tensor& ranks);

// [.., 15] What the rank head reads beside a row's state, from its largest logits [.., n]: those of
// drafter_service/draft/rank_head.h.
[[nodiscard]] at::Tensor RankFeatures(const at::Tensor& top);

// The loss of the rank head in the paper: for each block, the mean cross-entropy of the places that
// count; the sum of the blocks. logits [M, N, K, 4], classes and counts [M, N, K].
[[nodiscard]] at::Tensor PlainRankLoss(const at::Tensor& logits, const at::Tensor& classes,
                                       const at::Tensor& counts);

// The loss of the rank head in the authors' code. Classes near the right one are partly right, and
// an estimate below the right class costs more than one above. Frequent classes count less. A block
// counts up to its first wrong estimate, or to its first place without a label.
[[nodiscard]] at::Tensor OrdinalRankLoss(const at::Tensor& logits, const at::Tensor& classes);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_BLOCK_LOSS_H_
