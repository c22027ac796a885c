// Speculative sampling by rejection (SpS): Leviathan et al., arXiv 2211.17192, algorithm 1; Chen et
// al., arXiv 2302.01318, algorithm 2. One cycle draws a chain of tokens from the drafter's
// distributions q, each after the tokens before it. The target's distribution p then accepts the
// token x of a position with probability min(1, p(x) / q(x)). The first rejected token is replaced
// by a draw from norm(max(0, p − q)), which ends the cycle. If all tokens are accepted, a draw from
// p follows them. So the committed tokens are distributed as p, and a position accepts with
// probability Σ_x min(p(x), q(x)).
//
// bastion serves by the keyed choice instead (docs/sampling.md). This is the baseline of the
// papers, for measurements. Distributions are in double precision: one probability per token [V],
// with sum one. Thread-compatible.
#ifndef BASTION_TOOLS_SAMPLING_REJECTION_SAMPLER_H_
#define BASTION_TOOLS_SAMPLING_REJECTION_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion {

// Σ_x min(p(x), q(x)): the probability that rejection sampling accepts a token drawn from q.
// REQUIRES: p and q have the same size.
[[nodiscard]] double Overlap(absl::Span<const double> p, absl::Span<const double> q);

// The random decisions of SpS. The same seed and the same calls give the same decisions.
class RejectionSampler {
 public:
  struct Decision {
    bool accepted = false;
    TokenId token = 0;  // The drafted token, or its replacement.
  };

  explicit RejectionSampler(uint64_t seed) : seed_(seed) {}

  // Draws a token with a probability proportional to its weight. REQUIRES: no weight is negative,
  // and one is positive.
  [[nodiscard]] TokenId Draw(absl::Span<const double> weights);

  // Accepts `drafted`, or replaces it. REQUIRES: `drafted` was drawn from q.
  [[nodiscard]] Decision Decide(absl::Span<const double> p, absl::Span<const double> q,
                                TokenId drafted);

 private:
  [[nodiscard]] double NextUniform();  // In [0, 1).

  const uint64_t seed_;
  uint64_t draws_ = 0;
};

// The distributions of one cycle.
class ChainSource {
 public:
  virtual ~ChainSource() = default;
  // q [V] after the root and `drafted`. Empty: the drafter predicts no further position.
  [[nodiscard]] virtual absl::StatusOr<std::vector<double>> Draft(
      absl::Span<const TokenId> drafted) = 0;
  // p [V] after the root and `accepted`. A cycle asks for 0, 1, 2, … accepted tokens, in this
  // order, after it has drafted its whole chain.
  [[nodiscard]] virtual absl::StatusOr<std::vector<double>> Target(
      absl::Span<const TokenId> accepted) = 0;
};

// A position of a chain that a cycle reached: all tokens before it were accepted.
struct SampledPosition {
  bool accepted = false;
  double overlap = 0;  // Σ_x min(p(x), q(x)).
  // p(argmax q): the probability that the target's keyed choice is the drafter's best token.
  double top = 0;
};

// REQUIRES: p and q have the same size, which is not 0.
[[nodiscard]] SampledPosition DescribePosition(absl::Span<const double> p,
                                               absl::Span<const double> q, bool accepted);

struct SampledCycle {
  std::vector<SampledPosition> positions;
  std::vector<TokenId> tokens;  // The accepted tokens, and the one that the target adds.

  // Tokens that enter the KV cache: the root and the accepted ones, as Acceptance counts them. Its
  // mean is τ.
  [[nodiscard]] int committed_length() const { return static_cast<int>(tokens.size()); }
};

// Runs one cycle with at most `length` drafted tokens. Returns the errors of `source`.
[[nodiscard]] absl::StatusOr<SampledCycle> SampleCycle(int length, ChainSource& source,
                                                       RejectionSampler& sampler);

}  // namespace bastion

#endif  // BASTION_TOOLS_SAMPLING_REJECTION_SAMPLER_H_
