#include "tools/train/models/block_loss.h"

#include <algorithm>
#include <limits>

#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int64_t kChunkRows = 512;
// A column counts fully if this fraction of the anchors counts in it.
constexpr double kLeastShare = 1.0 / 8;
constexpr double kRareClass = 10;  // A class counts fully up to this many places.

// [.., 4] The distance of each class from the class `from` [..]. A class below counts double.
at::Tensor Distances(const at::Tensor& from) {
  const at::Tensor above = from.unsqueeze(-1) - at::arange(kRankClasses, at::kLong);
  return above.abs() + above.clamp_min(0);
}

// [M, N, K] How much the class of a place counts, by its frequency at the same place of the block.
at::Tensor ClassWeights(const at::Tensor& classes, const at::Tensor& counts) {
  const at::Tensor is_class =
      at::one_hot(classes.clamp_min(0), kRankClasses).mul(counts.unsqueeze(-1));
  const at::Tensor frequencies = is_class.sum(1, /*keepdim=*/true).clamp_min(1);  // [M, 1, K, 4]
  const at::Tensor weights = frequencies.reciprocal().mul(kRareClass).clamp_max(1);
  return (is_class * weights).sum(-1);
}

// The sum over blocks of Σ weights · losses / Σ weights. All [M, N, K].
at::Tensor SumOfMeans(const at::Tensor& losses, const at::Tensor& weights) {
  const at::Tensor totals = weights.sum({1, 2});
  return ((losses * weights).sum({1, 2}) / totals.where(totals > 0, at::ones_like(totals))).sum();
}

}  // namespace

Ranking RankLabels(const RankingArgs& args) {
  const at::NoGradGuard no_gradients;
  const at::Tensor rows = args.rows.detach(), head = args.head.detach();
  const at::Tensor numbers = at::arange(head.size(0), at::kLong);
  std::vector<at::Tensor> labels, ranks, tops;
  for (int64_t first = 0; first < rows.size(0); first += kChunkRows) {
    const int64_t count = std::min(kChunkRows, rows.size(0) - first);
    const at::Tensor logits = Product(rows.narrow(0, first, count), head);
    const at::Tensor tokens =
        Product(args.teacher.narrow(0, first, count), args.target_head).argmax(-1);
    const at::Tensor label = args.columns.index({tokens});
    const at::Tensor column = label.clamp_min(0).unsqueeze(-1);
    const at::Tensor own = logits.gather(-1, column);
    const at::Tensor before =
        logits.gt(own).logical_or(logits.eq(own).logical_and(numbers.unsqueeze(0).lt(column)));
    labels.push_back(label);
    ranks.push_back((before.sum(-1) + 1) * label.ge(0));
    if (args.top > 0) tops.push_back(std::get<0>(logits.topk(args.top)));
  }
  return {at::cat(labels), at::cat(ranks), tops.empty() ? at::Tensor() : at::cat(tops)};
}

at::Tensor ValidPrefix(const at::Tensor& right, const std::vector<int64_t>& starts, bool carries) {
  std::vector<at::Tensor> blocks;
  for (int64_t block = 0; block < right.size(0); ++block) {
    at::Tensor valid = at::ones({right.size(1)}, at::kBool);
    if (carries && block > 0) valid = blocks.back().select(1, starts[block - 1] - 1);
    std::vector<at::Tensor> places;
    for (int64_t k = 0; k < right.size(2); ++k) {
      places.push_back(valid);
      valid = valid.logical_and(right[block].select(1, k));
    }
    blocks.push_back(at::stack(places, 1));
  }
  return at::stack(blocks);
}

at::Tensor PlaceWeights(const at::Tensor& counts, double decay) {
  const at::Tensor decays = at::pow(decay, at::arange(counts.size(2), at::kFloat));
  const at::Tensor sharing = counts.sum(1, /*keepdim=*/true).to(at::kFloat);
  const at::Tensor weights =
      counts * decays / sharing.clamp_min(kLeastShare * static_cast<double>(counts.size(1)));
  return weights / weights.sum().clamp_min(std::numeric_limits<float>::min());
}

at::Tensor RankClasses(const at::Tensor& ranks) {
  return ranks.gt(0).to(at::kLong) + ranks.gt(1) + ranks.gt(4) + ranks.gt(10) - 1;
}

at::Tensor RankFeatures(const at::Tensor& top) {
  constexpr int64_t kRanks = 10;
  const int64_t count = top.size(-1);
  const at::Tensor log_p = at::log_softmax(top, -1);
  const at::Tensor best = log_p.narrow(-1, 0, 1), p = log_p.exp();
  const int64_t kept = std::min(kRanks, count);
  std::vector<at::Tensor> features = {
      at::constant_pad_nd(log_p.narrow(-1, 0, kept), {0, kRanks - kept})};
  for (const int64_t rank : {2, 3, 5}) {
    features.push_back(rank <= count ? best - log_p.narrow(-1, rank - 1, 1) : at::zeros_like(best));
  }
  features.push_back(p.narrow(-1, 0, 1));
  features.push_back(-(p * log_p).sum(-1, /*keepdim=*/true));
  return at::cat(features, -1);
}

at::Tensor PlainRankLoss(const at::Tensor& logits, const at::Tensor& classes,
                         const at::Tensor& counts) {
  const at::Tensor log_q = at::log_softmax(logits, -1);
  const at::Tensor losses = -log_q.gather(-1, classes.clamp_min(0).unsqueeze(-1)).squeeze(-1);
  return SumOfMeans(losses, counts.to(at::kFloat));
}

at::Tensor OrdinalRankLoss(const at::Tensor& logits, const at::Tensor& classes) {
  const at::Tensor estimates = logits.detach().argmax(-1);
  const at::Tensor known = classes.ge(0), label = classes.clamp_min(0);
  const at::Tensor counts =
      ValidPrefix(estimates.eq(classes), std::vector<int64_t>(), /*carries=*/false)
          .logical_and(known);
  // A class c has the weight 1 / (1 + |c - r| + max(r - c, 0))² in the wanted distribution.
  at::Tensor wanted = at::pow(1 + Distances(label).to(at::kFloat), -2);
  wanted = wanted / wanted.sum(-1, /*keepdim=*/true);
  const at::Tensor losses = -(wanted * at::log_softmax(logits, -1)).sum(-1);
  const at::Tensor misses =
      1 + Distances(label).gather(-1, estimates.unsqueeze(-1)).squeeze(-1).to(at::kFloat);
  return SumOfMeans(losses, counts * misses * ClassWeights(classes, counts));
}

}  // namespace bastion::train
