// The loss of rows in front of an LM head: the target's, or the drafter's own.
#ifndef BASTION_TOOLS_TRAIN_MODELS_HEAD_LOSS_H_
#define BASTION_TOOLS_TRAIN_MODELS_HEAD_LOSS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <functional>

namespace bastion::train {

// The largest logits of rows, in decreasing order.
struct TopLogits {
  at::Tensor tokens, logits;  // [N, K]
};

// Rows of a drafter and what they should predict.
struct HeadLossArgs {
  at::Tensor rows;           // [N, C] The drafter's normed outputs; records gradients.
  at::Tensor teacher;        // [N, C] The target's inputs of its head for the same predictions.
  at::Tensor labels;         // [N] int64: the tokens of the text, as rows of the head. −1: none.
  at::Tensor weights;        // [N] How much each row counts.
  at::Tensor head;           // [V, C] The target's, or its rows for the tokens of own_head.
  at::Tensor own_head = {};  // [V, C'] The drafter's, if it has one: rows are [N, C'].
  // The wanted distribution is this share on the label and the rest on the target's distribution at
  // temperature 1. 0 if there are rows without a label.
  double hard_share = 0.5;
  // A further loss on the K most probable tokens of each row, with its own weights. Returns its
  // gradient [N, C'] with respect to the rows, or an undefined tensor. Null: none.
  int64_t top = 0;  // K
  std::function<at::Tensor(const TopLogits&)> further = nullptr;
};

struct HeadLoss {
  at::Tensor losses;  // [N] Cross-entropy to the wanted distribution, in nats, without the weights.
  at::Tensor hits;    // [N] bool: the most probable token is the label.
};

// Adds the gradient of Σ weights · losses to what `rows` depend on, and to `own_head`. Works on a
// few hundred rows at a time, so that logits [N, V] never exist: their gradient is q − p, where p
// is wanted.
HeadLoss AddHeadGradients(const HeadLossArgs& args);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_HEAD_LOSS_H_
