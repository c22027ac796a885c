#include <limits>

#include "kernels/torch/kernels.h"
#include "kernels/torch/tensors.h"
// After torch.h.
#include "common/base/random.h"

namespace bastion::kernels::torch {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// g(seed, position, x) for the token x of every column, [V]: x is the column, or ids[column]. It
// uses the project's own generator, so that every backend gets the same bits.
at::Tensor Noise(const ChoiceRule& rule, int64_t columns, const int32_t* ids) {
  const int64_t vocabulary = ids == nullptr ? columns : int64_t{ids[columns - 1]} + 1;
  const at::Tensor noise = at::empty({(vocabulary + 3) / 4, 4}, at::kFloat);
  auto* const groups = reinterpret_cast<std::array<float, 4>*>(noise.mutable_data_ptr<float>());
  for (int64_t group = 0; group < noise.size(0); ++group) {
    groups[group] = KeyedGumbelGroup(rule.seed, rule.position, static_cast<uint32_t>(group));
  }
  if (ids != nullptr) return noise.view(-1).index_select(0, Indices(ids, columns));
  return noise.view(-1).narrow(0, 0, vocabulary);
}

struct Ranked {
  at::Tensor values;  // Descending
  at::Tensor ids;     // Ascending where values tie
};
Ranked Rank(const at::Tensor& values) {
  auto [sorted, ids] = values.sort(/*stable=*/true, 0, /*descending=*/true);
  return {std::move(sorted), std::move(ids)};
}

// [V]: true for the tokens that survive top-k, then top-p, then min-p. No token survives in a row
// with NaNs.
at::Tensor Survivors(const at::Tensor& logits, const ChoiceRule& rule) {
  if (logits.isnan().any().item<bool>()) return at::zeros_like(logits, at::kBool);
  const Ranked ranked = Rank(logits);
  const at::Tensor best = ranked.values[0].to(at::kDouble);
  // Unnormalized: the most likely token has mass 1.
  at::Tensor mass = ((ranked.values.to(at::kDouble) - best) / double{rule.temperature}).exp();
  at::Tensor kept = at::ones_like(logits, at::kBool);
  if (rule.top_k > 0 && rule.top_k < logits.size(0)) {
    kept = ranked.values >= ranked.values[rule.top_k - 1];
  }
  if (rule.top_p < 1) {
    const at::Tensor left = mass * kept, through = left.cumsum(0);
    at::Tensor enough = at::zeros_like(kept);
    // The most likely token always survives. Any other token survives if the tokens before it have
    // less than top_p of the mass.
    enough.narrow(0, 1, enough.size(0) - 1)
        .copy_(through.narrow(0, 0, enough.size(0) - 1) >= left.sum() * double{rule.top_p});
    kept = kept.logical_and(enough.logical_not());
  }
  kept = kept.logical_and(mass >= double{rule.min_p});
  return at::empty_like(kept).scatter_(0, ranked.ids, kept);
}

// The values that the choice compares, [V]: logit / T + g, or the logits at T = 0; −inf for tokens
// that the rule excludes. `ids`: the tokens of the columns, or null.
at::Tensor RaceValues(const at::Tensor& logits, const ChoiceRule& rule,
                      const int32_t* ids = nullptr) {
  if (rule.temperature <= 0) return logits;
  const at::Tensor values = logits / rule.temperature + Noise(rule, logits.size(0), ids);
  return rule.truncates() ? values.masked_fill(Survivors(logits, rule).logical_not(), kMasked)
                          : values;
}

// The first id of the highest value; −1 if none is above −inf. NaN never wins.
int32_t Winner(const at::Tensor& values) {
  const at::Tensor racing = values.masked_fill(values.isnan(), kMasked);
  const auto best = racing.argmax().item<int64_t>();
  return racing[best].item<float>() > kMasked ? static_cast<int32_t>(best) : -1;
}

void RankRow(const TopKArgs& args, int64_t row) {
  const at::Tensor logits = Floats(args.logits + row * args.vocabulary, {args.vocabulary});
  const at::Tensor tokens = View(args.tokens + row * args.candidates, at::kInt, {args.candidates});
  const at::Tensor log_probs = Floats(args.log_probs + row * args.candidates, {args.candidates});
  if (logits.isnan().any().item<bool>()) {
    tokens.fill_(-1);
    log_probs.fill_(std::numeric_limits<double>::quiet_NaN());
    return;
  }
  const Ranked ranked =
      Rank(args.coupling == nullptr ? logits : RaceValues(logits, args.coupling[row], args.ids));
  const at::Tensor best = ranked.ids.narrow(0, 0, args.candidates);
  tokens.copy_(args.ids == nullptr ? best
                                   : Indices(args.ids, args.vocabulary).index_select(0, best));
  log_probs.copy_(ranked.values.to(at::kDouble).log_softmax(0).narrow(0, 0, args.candidates));
}

}  // namespace

void Choose(const ChooseArgs& args, ThreadPool& pool) {
  ForRanges(pool, args.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const at::Tensor logits = Floats(args.logits + row * args.vocabulary, {args.vocabulary});
      args.tokens[row] = Winner(RaceValues(logits, args.rules[row]));
    }
  });
}

void TopK(const TopKArgs& args, ThreadPool& pool) {
  ForRanges(pool, args.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) RankRow(args, row);
  });
}

}  // namespace bastion::kernels::torch
