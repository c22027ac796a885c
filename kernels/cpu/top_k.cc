// The drafter's top candidates (TopKArgs in kernels/ops/ops.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/top_k.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/noise.h"
#include "kernels/cpu/ranking.h"
#include "kernels/cpu/truncation.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

void MarkInvalid(const TopKArgs& args, int64_t row) {
  std::fill_n(args.tokens + row * args.candidates, args.candidates, -1);
  std::fill_n(args.log_probs + row * args.candidates, args.candidates,
              std::numeric_limits<float>::quiet_NaN());
}

// Returns the values to rank: the logits or, for a coupled row, the values that the keyed choice
// compares.
const float* ValuesToRank(const TopKArgs& args, int64_t row) {
  const float* logits = args.logits + row * args.vocabulary;
  if (args.coupling == nullptr || args.coupling[row].temperature <= 0) return logits;
  const ChoiceRule& rule = args.coupling[row];
  static thread_local std::vector<float> noisy, truncated;
  noisy.resize(args.vocabulary);
  if (args.ids == nullptr) {
    AddNoise(logits, args.vocabulary, rule, noisy.data());
  } else {
    AddNoiseOf(args.ids, logits, args.vocabulary, rule, noisy.data());
  }
  if (!rule.truncates()) return noisy.data();
  truncated.assign(args.vocabulary, -std::numeric_limits<float>::infinity());
  for (const int32_t x : Truncation(logits, args.vocabulary, rule).Survivors()) {
    truncated[x] = noisy[x];
  }
  return truncated.data();
}

void TopKRow(const TopKArgs& args, int64_t row) {
  const float* values = ValuesToRank(args, row);
  static thread_local std::vector<int32_t> columns;
  SortedBest(values, args.vocabulary, args.candidates, columns);
  if (static_cast<int>(columns.size()) < args.candidates) return MarkInvalid(args, row);
  const float highest = values[columns[0]];
  const float log_sum = std::log(SumExp(values, args.vocabulary, highest));
  for (int k = 0; k < args.candidates; ++k) {
    const int32_t column = columns[k];
    args.tokens[row * args.candidates + k] = args.ids == nullptr ? column : args.ids[column];
    args.log_probs[row * args.candidates + k] = std::min(0.0f, values[column] - highest - log_sum);
  }
}

}  // namespace

void TopK(const TopKArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) TopKRow(args, row);
  });
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(TopK);
void TopK(const TopKArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(TopK)(args, pool); }
}  // namespace bastion::kernels::cpu
#endif
