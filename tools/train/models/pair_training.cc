#include "tools/train/models/pair_training.h"

#include <string>

#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr char kBefore[] = "candidate_selector.predecessor_projection";
constexpr char kAfter[] = "candidate_selector.successor_projection";
constexpr char kBeforeCodebook[] = "candidate_selector.predecessor_codebook";
constexpr char kAfterCodebook[] = "candidate_selector.successor_codebook";

// [N, K, C] The rows of `table` [V, C] for `tokens` [N, K].
at::Tensor RowsOf(const at::Tensor& table, const at::Tensor& tokens) {
  return table.index_select(0, tokens.flatten()).unflatten(0, tokens.sizes());
}

// [N, K] The products of each row [N, C] with its own K vectors [N, K, C].
at::Tensor Products(const at::Tensor& vectors, const at::Tensor& rows) {
  return BatchProduct(vectors, rows.unsqueeze(-1)).squeeze(-1);
}

}  // namespace

PairTraining::PairTraining(const FrozenTarget& target, const SelectorLearning& learning,
                           Parameters& parameters)
    : target_(target), backbone_weight_(learning.weight) {
  const int64_t hidden = target.config.dims.hidden;
  before_ = parameters.AddMap(kBefore, learning.rank, hidden);
  after_ = parameters.AddZeroMap(kAfter, learning.rank, hidden);
  projection_ =
      parameters.AddMap("candidate_selector.hidden_projection.weight", learning.rank, hidden);
}

at::Tensor PairTraining::Scores(const at::Tensor& rows, const at::Tensor& before,
                                const at::Tensor& candidates) const {
  const at::Tensor factors = Product(target_.embedding.index_select(0, before), before_) *
                             Product(rows, projection_);  // [N, r]
  // Each token is projected once.
  const auto [tokens, places] = at::_unique(candidates, /*sorted=*/true, /*return_inverse=*/true);
  const at::Tensor after = Product(target_.embedding.index_select(0, tokens), after_);
  return Products(RowsOf(after, places), factors);
}

PairLoss PairTraining::AddGradients(const PairRows& args, const TopLogits& top) const {
  const bool reaches_backbone = backbone_weight_ > 0;
  const at::Tensor rows = args.rows.detach().clone().requires_grad_(reaches_backbone);
  const at::Tensor heads = RowsOf(target_.head, top.tokens);
  const at::Tensor logits = reaches_backbone ? Products(heads, rows) : top.logits;
  const at::Tensor sums = logits + Scores(rows, args.before, top.tokens);
  const at::Tensor is_label = top.tokens.eq(args.labels.unsqueeze(-1));  // [N, K]
  const at::Tensor counts = is_label.any(-1);
  const at::Tensor wanted = at::softmax(Products(heads, args.teacher), -1) * (1 - args.hard_share) +
                            is_label * args.hard_share;
  const at::Tensor losses = -(wanted * at::log_softmax(sums, -1)).sum(-1) * counts;
  (losses * args.weights).sum().backward();
  PairLoss loss;
  loss.losses = losses.detach();
  const at::Tensor best = sums.detach().argmax(-1, /*keepdim=*/true);
  loss.hits = is_label.gather(-1, best).squeeze(-1);
  if (reaches_backbone) loss.gradient = rows.grad() * backbone_weight_;
  return loss;
}

std::vector<Parameter> PairTraining::Exported(const std::vector<Parameter>& parameters) const {
  const at::NoGradGuard no_gradients;
  std::vector<Parameter> exported = parameters;
  for (Parameter& parameter : exported) {
    if (parameter.name != kBefore && parameter.name != kAfter) continue;
    parameter.name = parameter.name == kBefore ? kBeforeCodebook : kAfterCodebook;
    parameter.value = Product(target_.embedding, parameter.value);
  }
  return exported;
}

}  // namespace bastion::train
