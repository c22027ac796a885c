#include "orchestrator/prior/transition_gains.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace bastion {

TransitionGains::TransitionGains(const TransitionTable& table) {
  const int vocabulary = table.vocabulary();
  for (TokenId token = 0; token < vocabulary; ++token) {
    probabilities_.push_back(table.Probability(token));
  }
  for (TokenId last = 0; last < vocabulary; ++last) {
    singles_.push_back(
        AddContext(table.After(last), [this](TokenId token) { return probabilities_[token]; }));
  }
  const std::vector<uint64_t>& pairs = table.columns().pairs;
  pairs_.resize(std::bit_ceil(std::max<size_t>(2, 2 * pairs.size())));
  for (const uint64_t pair : pairs) {
    const auto previous = static_cast<TokenId>(pair / vocabulary);
    const auto last = static_cast<TokenId>(pair % vocabulary);
    PairSlot& slot = pairs_[SlotOf(pair)];
    slot.pair = pair;
    slot.context = AddContext(table.After(previous, last),
                              [this, last](TokenId token) { return EstimateAfter(last, token); });
  }
}

template <typename PreviousEstimate>
TransitionGains::Context TransitionGains::AddContext(const Continuations& counted,
                                                     const PreviousEstimate& previous_estimate) {
  Context context;
  context.begin = static_cast<uint32_t>(gains_.size());
  context.size = static_cast<uint32_t>(std::min<size_t>(counted.tokens.size(), kMaxContinuations));
  context.rest = kSmoothing / (counted.total + kSmoothing);
  for (uint32_t i = 0; i < context.size; ++i) {
    const TokenId token = counted.tokens[i];
    const float smoothed = kSmoothing * previous_estimate(token);
    const float count = counted.counts[i];
    gains_.push_back({token, probabilities_[token], std::log(1 + count / smoothed),
                      (count + smoothed) / (counted.total + kSmoothing)});
  }
  return context;
}

float TransitionGains::EstimateAfter(TokenId last, TokenId token) const {
  const ContextGains gains = After(last);
  for (const TransitionGain& gain : gains.continuations) {
    if (gain.token == token) return gain.estimate;
  }
  return probabilities_[token] * gains.rest;
}

size_t TransitionGains::SlotOf(uint64_t pair) const {
  size_t slot = static_cast<size_t>((pair * 0x9E3779B97F4A7C15ull) >> 32) & (pairs_.size() - 1);
  while (pairs_[slot].pair != PairSlot::kFree && pairs_[slot].pair != pair) {
    slot = (slot + 1) & (pairs_.size() - 1);
  }
  return slot;
}

ContextGains TransitionGains::After(TokenId previous, TokenId last) const {
  return GainsOf(pairs_[SlotOf(static_cast<uint64_t>(previous) * singles_.size() + last)].context);
}

}  // namespace bastion
