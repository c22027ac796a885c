// The target's choice of a token.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/choose.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/noise.h"
#include "kernels/cpu/ranking.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

int32_t ArgMax(const float* logits, int count) {
  const float* found = std::find(logits, logits + count, Highest(logits, count));
  return found == logits + count ? -1 : static_cast<int32_t>(found - logits);
}

struct Winner {
  int32_t token = -1;
  float value = -std::numeric_limits<float>::infinity();

  // Ties go to the lowest id; NaN never wins.
  void Challenge(int32_t challenger, float with) {
    if (with > value || (with == value && challenger < token)) *this = {challenger, with};
  }
};

// argmax_x (logit(x)/T + g(x)). Few tokens can win, and only for those the noise is computed: with
// u = exp(−exp(−g)), x beats a value b only if −ln u < exp(logit(x)/T − b), and −ln u >= 1 − u.
class GumbelRace {
 public:
  GumbelRace(const float* logits, int count, const ChoiceRule& rule)
      : logits_(logits), count_(count), rule_(rule) {}

  // All tokens.
  int32_t Run() {
    // The best logit sets a value that most others cannot reach.
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

  // These only.
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
    // 1 − u, rounded down: what rounding does to the rest is far below the slack.
    const auto rest = hn::BitCast(integers, hn::ShiftRight<1>(hn::Not(random)));
    const Vec unlikely = hn::Mul(hn::ConvertTo(Floats(), rest), hn::Set(Floats(), 0x1p-31f));
    const float slack = 1e-3f + 1e-6f * std::abs(winner_.value);
    const Vec lead =
        hn::MulAdd(LoadFloats(logits_ + x), hn::Set(Floats(), 1.0f / rule_.temperature),
                   hn::Set(Floats(), slack - winner_.value));
    return !hn::AllFalse(
        Floats(), hn::Le(hn::Mul(unlikely, hn::Set(Floats(), 0.999f)), hn::Exp(Floats(), lead)));
  }

  const float* const logits_;
  const int count_;
  const ChoiceRule& rule_;
  Winner winner_;
};

// The tokens that top-k, top-p and min-p leave in the race. Each step sees what the one before left
// over. Nothing where there are NaNs.
class Truncation {
 public:
  Truncation(const float* logits, int count, const ChoiceRule& rule)
      : logits_(logits),
        count_(count),
        rule_(rule),
        highest_(Highest(logits, count)),
        total_(SumExp(logits, count, highest_, 1.0f / rule.temperature)) {}

  const std::vector<int32_t>& Survivors() {
    static thread_local std::vector<int32_t> kept;
    kept.clear();
    if (std::isnan(total_)) return kept;
    if (rule_.top_k > 0 && rule_.top_k < count_) {
      SortedBest(logits_, count_, rule_.top_k, kept);
      total_ = MassOf(kept);
    } else if (rule_.top_p < 1) {
      SortUntilEnough(kept);
    } else {
      kept.resize(count_);
      std::iota(kept.begin(), kept.end(), 0);
    }
    if (rule_.top_p < 1) KeepTopP(kept);
    if (rule_.min_p > 0) KeepMinP(kept);
    return kept;
  }

 private:
  // Unnormalised: the likeliest token has mass 1.
  float Mass(int32_t x) const { return std::exp((logits_[x] - highest_) / rule_.temperature); }
  float MassOf(const std::vector<int32_t>& tokens) const {
    float mass = 0;
    for (const int32_t x : tokens) mass += Mass(x);
    return mass;
  }

  // Sorts ever more of the likeliest tokens until they hold top_p of the mass.
  void SortUntilEnough(std::vector<int32_t>& kept) const {
    for (int64_t wanted = 64;; wanted *= 8) {
      SortedBest(logits_, count_, static_cast<int>(std::min<int64_t>(wanted, count_)), kept);
      if (wanted >= count_ || MassOf(kept) >= rule_.top_p * total_) return;
    }
  }

  // A token stays while the likelier ones hold less than top_p of the mass.
  void KeepTopP(std::vector<int32_t>& kept) const {
    float likelier = 0;
    size_t staying = 0;
    while (staying < kept.size() && (staying == 0 || likelier < rule_.top_p * total_)) {
      likelier += Mass(kept[staying++]);
    }
    kept.resize(staying);
  }

  void KeepMinP(std::vector<int32_t>& kept) const {
    kept.erase(
        std::remove_if(kept.begin(), kept.end(), [&](int32_t x) { return Mass(x) < rule_.min_p; }),
        kept.end());
  }

  const float* const logits_;
  const int count_;
  const ChoiceRule& rule_;
  const float highest_;
  float total_;
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
