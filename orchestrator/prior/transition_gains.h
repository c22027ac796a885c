// TransitionGains: a TransitionTable made ready to be asked while trees grow. The interpolation of
// transition_prior.h is worked out once for every continuation, and all that a lookup needs lies
// together: between two cycles the target's weights have pushed everything else out of the cache.
//
// 16 bytes a continuation, 48 to 96 a pair. Thread-safe: immutable.
#ifndef BASTION_ORCHESTRATOR_PRIOR_TRANSITION_GAINS_H_
#define BASTION_ORCHESTRATOR_PRIOR_TRANSITION_GAINS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/prior/transition_table.h"

namespace bastion {

// One continuation x of one context.
struct TransitionGain {
  TokenId token;
  float probability;  // P(x)
  float gain;         // gain_s(x)
  float share;        // p_s(x)
};

// The continuations of one context; p_s of any other token is p_{s−1} · rest.
struct ContextGains {
  absl::Span<const TransitionGain> continuations;
  float rest = 1;
};

class TransitionGains {
 public:
  static constexpr float kSmoothing = 20;       // k_s: this many counts outweigh what was known.
  static constexpr int kMostContinuations = 8;  // Used of a context.

  // Keeps nothing of `table`.
  explicit TransitionGains(const TransitionTable& table);

  [[nodiscard]] int vocabulary() const { return static_cast<int>(probabilities_.size()); }

  // P(x), and the evidence after the last token and after the last two. REQUIRES: tokens lie in
  // [0, vocabulary).
  [[nodiscard]] float Probability(TokenId token) const { return probabilities_[token]; }
  [[nodiscard]] ContextGains After(TokenId last) const { return Of(singles_[last]); }
  [[nodiscard]] ContextGains After(TokenId previous, TokenId last) const;

 private:
  struct Context {
    uint32_t begin = 0;
    uint32_t size = 0;
    float rest = 1;
  };
  struct PairSlot {
    static constexpr uint64_t kFree = ~uint64_t{0};
    uint64_t pair = kFree;
    Context context;
  };

  // Adds a context whose continuation x had the share `before(x)` so far.
  template <typename Before>
  [[nodiscard]] Context Add(const Continuations& counted, const Before& before);
  [[nodiscard]] float ShareAfter(TokenId last, TokenId token) const;
  [[nodiscard]] size_t SlotOf(uint64_t pair) const;
  [[nodiscard]] ContextGains Of(const Context& context) const {
    return {absl::MakeConstSpan(gains_).subspan(context.begin, context.size), context.rest};
  }

  std::vector<float> probabilities_;  // [V]
  std::vector<Context> singles_;      // [V]
  std::vector<PairSlot> pairs_;       // Open addressing.
  std::vector<TransitionGain> gains_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_TRANSITION_GAINS_H_
