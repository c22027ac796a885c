// TransitionGains: a TransitionTable prepared for lookup while trees grow. The constructor computes
// the interpolation of transition_prior.h once for every continuation. All data of one lookup is
// contiguous, because each verify forward evicts the table from the CPU caches.
//
// Memory: 16 bytes per continuation, 48 to 96 per pair. Thread-safe: immutable.
#ifndef BASTION_ORCHESTRATOR_PRIOR_TRANSITION_GAINS_H_
#define BASTION_ORCHESTRATOR_PRIOR_TRANSITION_GAINS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/prior/transition_table.h"

namespace bastion {

// One continuation x of one context. Symbols as in transition_prior.h.
struct TransitionGain {
  TokenId token;
  float probability;  // P(x)
  float gain;         // gain_s(x)
  float estimate;     // p_s(x)
};

// The continuations of one context. For any other token, p_s(x) = p_{s−1}(x) · rest.
struct ContextGains {
  absl::Span<const TransitionGain> continuations;
  float rest = 1;
};

class TransitionGains {
 public:
  static constexpr float kSmoothing = 20;      // k_s
  static constexpr int kMaxContinuations = 8;  // Per context; the rarer continuations are left out.

  // `table` need not outlive this object.
  explicit TransitionGains(const TransitionTable& table);

  [[nodiscard]] int vocabulary() const { return static_cast<int>(probabilities_.size()); }

  // P(x). REQUIRES, here and below: tokens are in [0, vocabulary).
  [[nodiscard]] float Probability(TokenId token) const { return probabilities_[token]; }
  // The continuations after the last token, and after the last two.
  [[nodiscard]] ContextGains After(TokenId last) const { return GainsOf(singles_[last]); }
  [[nodiscard]] ContextGains After(TokenId previous, TokenId last) const;

 private:
  struct Context {
    uint32_t begin = 0;  // First index in gains_.
    uint32_t size = 0;
    float rest = 1;
  };
  struct PairSlot {
    static constexpr uint64_t kFree = ~uint64_t{0};
    uint64_t pair = kFree;
    Context context;
  };

  // Appends the continuations of one context to gains_. `previous_estimate(x)` is p_{s−1}(x).
  template <typename PreviousEstimate>
  [[nodiscard]] Context AddContext(const Continuations& counted,
                                   const PreviousEstimate& previous_estimate);
  // The estimate of `token` after the single token `last`.
  [[nodiscard]] float EstimateAfter(TokenId last, TokenId token) const;
  [[nodiscard]] size_t SlotOf(uint64_t pair) const;
  [[nodiscard]] ContextGains GainsOf(const Context& context) const {
    return {absl::MakeConstSpan(gains_).subspan(context.begin, context.size), context.rest};
  }

  std::vector<float> probabilities_;  // [V]
  std::vector<Context> singles_;      // [V]
  std::vector<PairSlot> pairs_;       // Hash table with open addressing.
  std::vector<TransitionGain> gains_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_TRANSITION_GAINS_H_
