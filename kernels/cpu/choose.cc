// The keyed choice of a token (ChoiceRule in kernels/ops/ops.h).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/choose.cc"
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

int32_t ArgMax(const float* logits, int count) {
  const float highest = Highest(logits, count);
  if (highest == -std::numeric_limits<float>::infinity()) return -1;
  const float* found = std::find(logits, logits + count, highest);
  return found == logits + count ? -1 : static_cast<int32_t>(found - logits);
}

struct Winner {
  int32_t token = -1;
  float value = -std::numeric_limits<float>::infinity();

  // Ties go to the lowest id; NaN never wins.
  void Challenge(int32_t challenger, float score) {
    if (score > value || (score == value && challenger < token)) *this = {challenger, score};
  }
};

// Finds argmax_x (logit(x)/T + g(x)). Few tokens can win, so the exact noise is computed only for
// those that can. With u = exp(−exp(−g)), token x exceeds a value b only if −ln u < exp(logit(x)/T
// − b). Because −ln u >= 1 − u, comparing 1 − u with the right side excludes most tokens without a
// logarithm.
class GumbelRace {
 public:
  GumbelRace(const float* logits, int count, const ChoiceRule& rule)
      : logits_(logits), count_(count), rule_(rule) {}

  // Runs the race among all tokens.
  int32_t Run() {
    // The token with the best logit sets a value that most other tokens cannot reach.
    const int32_t likeliest = ArgMax(logits_, count_);
    if (likeliest >= 0) Enter(likeliest);
    alignas(64) uint32_t words[kWordTokens];
    for (int first = 0; first < count_; first += kWordTokens) {
      DrawWords(rule_.seed, rule_.position, first, words);
      const int last = std::min(count_, first + kWordTokens);
      int x = first;
      for (; x + kLanes <= last; x += kLanes) {
        if (!AnyMayWin(x, words + (x - first))) continue;
        for (int lane = 0; lane < kLanes; ++lane) Enter(x + lane);
      }
      for (; x < last; ++x) Enter(x);
    }
    return winner_.token;
  }

  // Runs the race among `tokens` only.
  int32_t RunAmong(const std::vector<int32_t>& tokens) {
    for (const int32_t x : tokens) Enter(x);
    return winner_.token;
  }

 private:
  void Enter(int32_t x) {
    winner_.Challenge(x,
                      logits_[x] / rule_.temperature + KeyedGumbel(rule_.seed, rule_.position, x));
  }

  bool AnyMayWin(int x, const uint32_t* words) const {
    if (winner_.token < 0) return true;
    const hn::Rebind<int32_t, Floats> integers;
    const auto random = hn::LoadU(hn::Rebind<uint32_t, Floats>(), words);
    // 1 − u, rounded down. The slack is far larger than the other rounding errors.
    const auto inverted = hn::BitCast(integers, hn::ShiftRight<1>(hn::Not(random)));
    const Vec one_minus_u = hn::Mul(hn::ConvertTo(Floats(), inverted), hn::Set(Floats(), 0x1p-31f));
    const float slack = 1e-3f + 1e-6f * std::abs(winner_.value);
    const Vec lead =
        hn::MulAdd(LoadFloats(logits_ + x), hn::Set(Floats(), 1.0f / rule_.temperature),
                   hn::Set(Floats(), slack - winner_.value));
    return !hn::AllFalse(
        Floats(), hn::Le(hn::Mul(one_minus_u, hn::Set(Floats(), 0.999f)), hn::Exp(Floats(), lead)));
  }

  const float* const logits_;
  const int count_;
  const ChoiceRule& rule_;
  Winner winner_;
};

int32_t ChooseRow(const float* logits, int count, const ChoiceRule& rule) {
  if (rule.temperature <= 0) return ArgMax(logits, count);
  GumbelRace race(logits, count, rule);
  if (!rule.truncates()) return race.Run();
  return race.RunAmong(Truncation(logits, count, rule).Survivors());
}

}  // namespace

void Choose(const ChooseArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      args.tokens[row] =
          ChooseRow(args.logits + row * args.vocabulary, args.vocabulary, args.rules[row]);
    }
  });
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Choose);
void Choose(const ChooseArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Choose)(args, pool); }
}  // namespace bastion::kernels::cpu
#endif
