// The noise g(seed, position, token) of the keyed choice, for whole rows. Like vector.h, this file
// is included once for every instruction set.
#if defined(BASTION_KERNELS_CPU_NOISE_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BASTION_KERNELS_CPU_NOISE_H_
#undef BASTION_KERNELS_CPU_NOISE_H_
#else
#define BASTION_KERNELS_CPU_NOISE_H_
#endif

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/random.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/vector.h"
#include "kernels/ops/ops.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {

// One call of the generator draws the random words of the keyed choice for kWordTokens tokens. They
// equal those of KeyedWords (common/base/random.h). DrawWords draws for tokens [first, first +
// kWordTokens), DrawGroups for groups of four tokens: group g has tokens 4 g to 4 g + 3.
#if HWY_TARGET == HWY_SCALAR
inline constexpr int kWordTokens = 4;

inline void DrawGroups(uint64_t seed, int32_t position, const uint64_t* groups, uint32_t* words) {
  const PhiloxCounter four = KeyedWords(seed, position, static_cast<uint32_t>(groups[0]));
  std::copy(four.begin(), four.end(), words);
}
inline void DrawWords(uint64_t seed, int32_t position, int first, uint32_t* words) {
  const auto group = static_cast<uint64_t>(first / 4);
  DrawGroups(seed, position, &group, words);
}
#else
// One generator per lane. A counter word is the lower half of its 64-bit lane. The upper half can
// hold anything: MulEven and the last step ignore it.
using Words = hn::CappedTag<uint64_t, kWidest / 2>;
inline constexpr int kWordTokens = 4 * hn::MaxLanes(Words());

inline void Draw(uint64_t seed, int32_t position, hn::VFromD<Words> c0, uint32_t* words) {
  const Words d;
  const hn::Repartition<uint32_t, Words> halves;
  const auto times = [&](auto counter, uint32_t multiplier) HWY_ATTR {
    return hn::MulEven(hn::BitCast(halves, counter), hn::Set(halves, multiplier));
  };
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
  hn::StoreInterleaved2(pair(c0, c1), pair(c2, c3), d, reinterpret_cast<uint64_t*>(words));
}
inline void DrawGroups(uint64_t seed, int32_t position, const uint64_t* groups, uint32_t* words) {
  Draw(seed, position, hn::LoadU(Words(), groups), words);
}
inline void DrawWords(uint64_t seed, int32_t position, int first, uint32_t* words) {
  Draw(seed, position, hn::Iota(Words(), static_cast<uint64_t>(first / 4)), words);
}
#endif

// Returns logits / T + g for kLanes tokens, whose random words are `words`.
inline Vec NoisyLogits(const float* logits, const uint32_t* words, float temperature) {
  const hn::Rebind<uint32_t, Floats> unsigneds;
  const hn::Rebind<int32_t, Floats> integers;
  const auto to_floats = [&](auto half) HWY_ATTR {
    return hn::ConvertTo(Floats(), hn::BitCast(integers, half));
  };
  // 1 − u, where u in (0, 1) is the uniform random number and the noise is −ln(−ln u). A small
  // 1 − u gives large noise and has full precision. The cap below 1 keeps the noise finite; it
  // affects only the lowest noise.
  const auto inverted = hn::Not(hn::LoadU(unsigneds, words));
  const Vec low = hn::MulAdd(to_floats(hn::And(inverted, hn::Set(unsigneds, 0xFFFF))),
                             hn::Set(Floats(), 0x1p-32f), hn::Set(Floats(), 0x1p-33f));
  const Vec one_minus_u =
      hn::Min(hn::MulAdd(to_floats(hn::ShiftRight<16>(inverted)), hn::Set(Floats(), 0x1p-16f), low),
              hn::Set(Floats(), 1 - 0x1p-24f));
  const Vec minus_log_u = hn::Neg(hn::Log1p(Floats(), hn::Neg(one_minus_u)));  // −ln u
  const Vec scaled = hn::Mul(LoadFloats(logits), hn::Set(Floats(), 1.0f / temperature));
  return hn::Sub(scaled, hn::Log(Floats(), minus_log_u));
}

// out[x] = logits[x] / T + g(seed, position, x), with g in float precision. This is for ranking
// draft candidates, not for the choice itself.
inline void AddNoise(const float* logits, int count, const ChoiceRule& rule, float* out) {
  alignas(64) uint32_t words[kWordTokens];
  for (int first = 0; first < count; first += kWordTokens) {
    DrawWords(rule.seed, rule.position, first, words);
    const int last = std::min(count, first + kWordTokens);
    int x = first;
    for (; x + kLanes <= last; x += kLanes) {
      hn::StoreU(NoisyLogits(logits + x, words + (x - first), rule.temperature), Floats(), out + x);
    }
    for (; x < last; ++x) {
      out[x] = logits[x] / rule.temperature + KeyedGumbel(rule.seed, rule.position, x);
    }
  }
}

// Draws the random words of the tokens `ids` [count], which ascend.
inline void DrawWordsOf(const int32_t* ids, int count, const ChoiceRule& rule, uint32_t* words) {
  constexpr int kGroups = kWordTokens / 4;
  alignas(64) uint32_t drawn[kWordTokens];
  uint64_t groups[kGroups] = {};
  for (int x = 0; x < count;) {
    // Tokens ids[x] to ids[end - 1] are in `used` groups.
    int end = x, used = 0;
    for (; end < count; ++end) {
      const auto group = static_cast<uint64_t>(ids[end] / 4);
      if (used > 0 && groups[used - 1] == group) continue;
      if (used == kGroups) break;
      groups[used++] = group;
    }
    DrawGroups(rule.seed, rule.position, groups, drawn);
    for (int at = 0; x < end; ++x) {
      if (groups[at] != static_cast<uint64_t>(ids[x] / 4)) ++at;
      words[x] = drawn[4 * at + ids[x] % 4];
    }
  }
}

// The same as AddNoise if logits[x] is the logit of token ids[x]: out[x] = logits[x] / T + g(seed,
// position, ids[x]).
inline void AddNoiseOf(const int32_t* ids, const float* logits, int count, const ChoiceRule& rule,
                       float* out) {
  static thread_local std::vector<uint32_t> words;
  words.resize(count);
  DrawWordsOf(ids, count, rule, words.data());
  int x = 0;
  for (; x + kLanes <= count; x += kLanes) {
    hn::StoreU(NoisyLogits(logits + x, words.data() + x, rule.temperature), Floats(), out + x);
  }
  for (; x < count; ++x) {
    out[x] = logits[x] / rule.temperature + KeyedGumbel(rule.seed, rule.position, ids[x]);
  }
}

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BASTION_KERNELS_CPU_NOISE_H_
