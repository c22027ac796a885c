// The training of DFlash 2's selector, which scores how well a candidate of a position follows a
// candidate of the position before it: c(a, b) = Σ_k A[a]_k · η_k · B[b]_k, with η = H h for b's
// row h. Scores are added to the logits.
//
// The codebooks A and B of the checkpoint have a row for every token. They are projections of the
// target's embedding E here, A = E W_A and B = E W_B: free rows would be many parameters, and those
// of rare tokens would hardly learn. W_B begins with zeros, so that all scores are 0.
//
// The loss is the cross-entropy over the K most probable tokens of a row, after the true token
// before it. A node of a tree matters only if the tokens before it are the true ones, so this is
// the case that counts. Rows whose true token is not among the K have no loss.
#ifndef BASTION_TOOLS_TRAIN_MODELS_PAIR_TRAINING_H_
#define BASTION_TOOLS_TRAIN_MODELS_PAIR_TRAINING_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <vector>

#include "tools/train/models/drafter_shape.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/head_loss.h"
#include "tools/train/models/parameters.h"

namespace bastion::train {

// Rows of the drafter, as in HeadLossArgs.
struct PairRows {
  at::Tensor rows;          // [N, C] The normed outputs, without gradients.
  at::Tensor teacher;       // [N, C] The target's inputs of its head for the same predictions.
  at::Tensor before;        // [N] int64: the true tokens before those that the rows predict.
  at::Tensor labels;        // [N] int64: the true tokens.
  at::Tensor weights;       // [N]
  double hard_share = 0.5;  // As in HeadLossArgs. The rest is the target's, over the K candidates.
};

struct PairLoss {
  at::Tensor losses;    // [N] 0 where a row has no loss.
  at::Tensor hits;      // [N] bool: the candidate with the best sum is the label.
  at::Tensor gradient;  // [N, C] Of the weighted losses, times the backbone's weight. Or undefined.
};

class PairTraining {
 public:
  // Adds the parameters. REQUIRES: learning.rank > 0.
  PairTraining(const FrozenTarget& target, const SelectorLearning& learning,
               Parameters& parameters);

  // [N, K] The scores of `candidates` [N, K] after the tokens `before` [N].
  [[nodiscard]] at::Tensor Scores(const at::Tensor& rows, const at::Tensor& before,
                                  const at::Tensor& candidates) const;
  // Adds the gradients of the loss to the selector's parameters.
  [[nodiscard]] PairLoss AddGradients(const PairRows& args, const TopLogits& top) const;

  // `parameters` as the checkpoint has them: with codebooks in place of W_A and W_B.
  [[nodiscard]] std::vector<Parameter> Exported(const std::vector<Parameter>& parameters) const;

 private:
  const FrozenTarget& target_;
  const double backbone_weight_;
  at::Tensor before_, after_;  // W_A and W_B, [r, C]
  at::Tensor projection_;      // H, [r, C]
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_PAIR_TRAINING_H_
