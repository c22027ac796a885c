// What the target says of the next token, and what the choice rules make of it: computed here once
// more, in double precision and in the plainest way, to compare the engine with.
#ifndef BASTION_CLIENT_EXACTNESS_TARGET_DISTRIBUTION_H_
#define BASTION_CLIENT_EXACTNESS_TARGET_DISTRIBUTION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/stages.h"

namespace bastion {

// The target's own log-probability of every token [V] after `prefix`, from plain decoding: no tree
// is involved. `scratch` is opened and closed again. Errors are the verifier's, or DATA_LOSS when
// it does not tell all tokens. REQUIRES: `prefix` is not empty.
[[nodiscard]] absl::StatusOr<std::vector<double>> NextLogProbs(Verifier& verifier,
                                                               SequenceId scratch,
                                                               absl::Span<const TokenId> prefix);

// The distribution [V] that the keyed choice draws from, given a row's log-probabilities:
// temperature, then top-k, top-p and min-p in this order, each over what the one before left
// (kernels/ops.h). At temperature 0 all mass is on the likeliest token, the lowest id of equals.
[[nodiscard]] std::vector<double> ChoiceProbabilities(absl::Span<const double> log_probs,
                                                      const ChoiceParams& choice);

}  // namespace bastion

#endif  // BASTION_CLIENT_EXACTNESS_TARGET_DISTRIBUTION_H_
