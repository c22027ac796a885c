// The target's distribution of the next token, before and after the rules of the keyed choice. This
// is an independent, simple implementation in double precision, used to check the engine.
#ifndef BASTION_TOOLS_SAMPLING_TARGET_DISTRIBUTION_H_
#define BASTION_TOOLS_SAMPLING_TARGET_DISTRIBUTION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/stages.h"

namespace bastion {

// The log-probability of every token [V] that a verifier reported for its first choice. DATA_LOSS
// if a token is missing.
[[nodiscard]] absl::StatusOr<std::vector<double>> AllLogProbs(const Acceptance& acceptance,
                                                              int vocabulary);

// The target's own log-probability of every token [V] after `prefix`, by plain decoding without a
// tree. Opens and closes the sequence `scratch`. Errors: those of the verifier, DATA_LOSS if it
// does not report all tokens. REQUIRES: `prefix` is not empty.
[[nodiscard]] absl::StatusOr<std::vector<double>> NextLogProbs(Verifier& verifier,
                                                               SequenceId scratch,
                                                               absl::Span<const TokenId> prefix);

// The distribution [V] that the keyed choice draws from, given a row's log-probabilities. It
// applies temperature, top-k, top-p and min-p in this order, each to the tokens that the previous
// rule kept (kernels/ops/ops.h). At temperature 0, the most likely token has probability 1; of
// equally likely tokens, the one with the lowest id.
[[nodiscard]] std::vector<double> ChoiceProbabilities(absl::Span<const double> log_probs,
                                                      const ChoiceParams& choice);

}  // namespace bastion

#endif  // BASTION_TOOLS_SAMPLING_TARGET_DISTRIBUTION_H_
