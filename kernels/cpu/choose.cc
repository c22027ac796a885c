// The target's choice of a token, and the drafter's top candidates.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/choose.cc"
#include "hwy/foreach_target.h"
// After foreach_target.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "hwy/contrib/math/math-inl.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {
namespace {

float Highest(const float* x, int count) {
  Vec highest[4];
  for (Vec& part : highest) part = hn::Set(Floats(), x[0]);
  int i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int v = 0; v < 4; ++v) highest[v] = hn::Max(highest[v], LoadFloats(x + i + v * kLanes));
  }
  const Vec all = hn::Max(hn::Max(highest[0], highest[1]), hn::Max(highest[2], highest[3]));
  float result = hn::GetLane(hn::MaxOfLanes(Floats(), all));
  for (; i < count; ++i) result = std::max(result, x[i]);
  return result;
}

int32_t ArgMax(const float* logits, int count) {
  const float* found = std::find(logits, logits + count, Highest(logits, count));
  return found == logits + count ? -1 : static_cast<int32_t>(found - logits);
}

// The random words of the keyed choice for tokens [first, first + kWordTokens): those of
// KeyedWords.
#if HWY_TARGET == HWY_SCALAR
inline constexpr int kWordTokens = 4;

void DrawWords(uint64_t seed, int32_t position, int first, uint32_t* words) {
  const PhiloxCounter four = KeyedWords(seed, position, static_cast<uint32_t>(first / 4));
  std::copy(four.begin(), four.end(), words);
}
#else
// One generator a lane, in lanes of 64 bits of which only the lower halves count.
using Words = hn::CappedTag<uint64_t, kWidest / 2>;
inline constexpr int kWordTokens = 4 * hn::MaxLanes(Words());

void DrawWords(uint64_t seed, int32_t position, int first, uint32_t* words) {
  const Words d;
  const hn::Repartition<uint32_t, Words> halves;
  const auto times = [&](auto counter, uint32_t multiplier) HWY_ATTR {
    return hn::MulEven(hn::BitCast(halves, counter), hn::Set(halves, multiplier));
  };
  auto c0 = hn::Iota(d, static_cast<uint64_t>(first / 4));
  auto c1 = hn::Set(d, static_cast<uint32_t>(position));
  auto c2 = hn::Zero(d), c3 = hn::Zero(d);
  PhiloxKey key = PhiloxKeyOf(seed);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const auto product0 = times(c0, kPhiloxMultipliers[0]);
    const auto product1 = times(c2, kPhiloxMultipliers[1]);
    c0 = hn::Xor(hn::ShiftRight<32>(product1), hn::Xor(c1, hn::Set(d, key[0])));
    c2 = hn::Xor(hn::ShiftRight<32>(product0), hn::Xor(c3, hn::Set(d, key[1])));
    c1 = product1;
    c3 = product0;
    key[0] += kPhiloxWeyls[0];
    key[1] += kPhiloxWeyls[1];
  }
  const auto low = hn::Set(d, 0xFFFFFFFFu);
  const auto pair = [&](auto a, auto b)
                        HWY_ATTR { return hn::Or(hn::And(a, low), hn::ShiftLeft<32>(b)); };
  alignas(64) uint64_t left[hn::MaxLanes(d)], right[hn::MaxLanes(d)];
  hn::Store(pair(c0, c1), d, left);
  hn::Store(pair(c2, c3), d, right);
  for (size_t i = 0; i < hn::MaxLanes(d); ++i) {
    std::memcpy(words + 4 * i, left + i, 8);
    std::memcpy(words + 4 * i + 2, right + i, 8);
  }
}
#endif

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
  GumbelRace(const float* logits, int count, float temperature, uint64_t seed, int32_t position)
      : logits_(logits),
        count_(count),
        temperature_(temperature),
        seed_(seed),
        position_(position) {}

  int32_t Run() {
    // The best logit sets a value that most others cannot reach.
    const int32_t likeliest = ArgMax(logits_, count_);
    if (likeliest >= 0) Enter(likeliest);
    alignas(64) uint32_t words[kWordTokens];
    for (int first = 0; first < count_; first += kWordTokens) {
      DrawWords(seed_, position_, first, words);
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

 private:
  void Enter(int32_t x) {
    winner_.Challenge(x, logits_[x] / temperature_ + KeyedGumbel(seed_, position_, x));
  }

  bool AnyMayWin(int x, const uint32_t* words) const {
    if (winner_.token < 0) return true;
    const hn::Rebind<int32_t, Floats> integers;
    const auto random = hn::LoadU(hn::Rebind<uint32_t, Floats>(), words);
    // 1 − u, rounded down: what rounding does to the rest is far below the slack.
    const auto rest = hn::BitCast(integers, hn::ShiftRight<1>(hn::Not(random)));
    const Vec unlikely = hn::Mul(hn::ConvertTo(Floats(), rest), hn::Set(Floats(), 0x1p-31f));
    const float slack = 1e-3f + 1e-6f * std::abs(winner_.value);
    const Vec lead = hn::MulAdd(LoadFloats(logits_ + x), hn::Set(Floats(), 1.0f / temperature_),
                                hn::Set(Floats(), slack - winner_.value));
    return !hn::AllFalse(
        Floats(), hn::Le(hn::Mul(unlikely, hn::Set(Floats(), 0.999f)), hn::Exp(Floats(), lead)));
  }

  const float* const logits_;
  const int count_;
  const float temperature_;
  const uint64_t seed_;
  const int32_t position_;
  Winner winner_;
};

// Σ exp(x - highest).
float SumExp(const float* x, int count, float highest) {
  const Vec peak = hn::Set(Floats(), highest);
  Lanes16 sum = Broadcast16(0.0f);
  int i = 0;
  for (; i + kWidest <= count; i += kWidest) {
    for (int v = 0; v < kVectors; ++v) {
      const Vec e = hn::Exp(Floats(), hn::Sub(LoadFloats(x + i + v * kLanes), peak));
      sum.v[v] = hn::Add(sum.v[v], e);
    }
  }
  float total = Sum16(sum);
  for (; i < count; ++i) total += std::exp(x[i] - highest);
  return total;
}

// Ids that may be among the K best: everything not below a bound that at least K tokens reach.
// The bound is the K-th best of the maxima of 2K or more interleaved strips; a strip is one column
// of the logits laid out in rows of as many.
void Shortlist(const float* logits, int vocabulary, int candidates, std::vector<int32_t>& ids) {
  const int strips = std::min(vocabulary, (2 * candidates + kWidest - 1) / kWidest * kWidest);
  static thread_local std::vector<float> maxima;
  maxima.assign(logits, logits + strips);
  int first = strips;
  for (; first + strips <= vocabulary; first += strips) {
    int i = 0;
    for (; i + kLanes <= strips; i += kLanes) {
      const Vec highest = hn::Max(LoadFloats(maxima.data() + i), LoadFloats(logits + first + i));
      hn::StoreU(highest, Floats(), maxima.data() + i);
    }
    for (; i < strips; ++i) maxima[i] = std::max(maxima[i], logits[first + i]);
  }
  for (int x = first; x < vocabulary; ++x)
    maxima[x - first] = std::max(maxima[x - first], logits[x]);
  std::nth_element(maxima.begin(), maxima.begin() + (candidates - 1), maxima.end(),
                   std::greater<>());
  const float bound = maxima[candidates - 1];
  ids.resize(vocabulary);
  int32_t* next = ids.data();
  for (int32_t x = 0; x < vocabulary; ++x) {
    *next = x;
    next += static_cast<int>(logits[x] >= bound);
  }
  ids.resize(next - ids.data());
}

void MarkBroken(const TopKArgs& args, int64_t row) {
  std::fill_n(args.tokens + row * args.candidates, args.candidates, -1);
  std::fill_n(args.log_probs + row * args.candidates, args.candidates,
              std::numeric_limits<float>::quiet_NaN());
}

void TopKRow(const TopKArgs& args, int64_t row) {
  const float* logits = args.logits + row * args.vocabulary;
  static thread_local std::vector<int32_t> ids;
  Shortlist(logits, args.vocabulary, args.candidates, ids);
  if (static_cast<int>(ids.size()) < args.candidates) return MarkBroken(args, row);
  std::partial_sort(ids.begin(), ids.begin() + args.candidates, ids.end(), [&](int a, int b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  const float highest = logits[ids[0]];
  const float log_sum = std::log(SumExp(logits, args.vocabulary, highest));
  for (int k = 0; k < args.candidates; ++k) {
    args.tokens[row * args.candidates + k] = ids[k];
    args.log_probs[row * args.candidates + k] = std::min(0.0f, logits[ids[k]] - highest - log_sum);
  }
}

}  // namespace

void Choose(const ChooseArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* logits = args.logits + row * args.vocabulary;
      const float temperature = args.temperatures[row];
      if (temperature > 0.0f) {
        GumbelRace race(logits, args.vocabulary, temperature, args.seeds[row], args.positions[row]);
        args.tokens[row] = race.Run();
      } else {
        args.tokens[row] = ArgMax(logits, args.vocabulary);
      }
    }
  });
}

void TopK(const TopKArgs& args, ThreadPool& pool) {
  pool.ParallelFor(args.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) TopKRow(args, row);
  });
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace bastion::kernels::cpu {
HWY_EXPORT(Choose);
HWY_EXPORT(TopK);
void Choose(const ChooseArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(Choose)(args, pool); }
void TopK(const TopKArgs& args, ThreadPool& pool) { HWY_DYNAMIC_DISPATCH(TopK)(args, pool); }
}  // namespace bastion::kernels::cpu
#endif
