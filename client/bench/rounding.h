// What int8 weights cost in fidelity: an int8 target against the same weights in bf16, both fed
// what the bf16 one writes. An int8 target is a model of its own, decoded losslessly as any other;
// this says how far it is from the one it was rounded from.
#ifndef BASTION_CLIENT_BENCH_ROUNDING_H_
#define BASTION_CLIENT_BENCH_ROUNDING_H_

#include <string>
#include <vector>

#include "client/bench/measurement.h"
#include "common/stages/stages.h"

namespace bastion {

struct RoundingError {
  int positions = 0;
  int same_choice = 0;             // Positions where both have the same likeliest token.
  double log_prob_difference = 0;  // Mean |Δ log p| of the token that the exact target chose.

  [[nodiscard]] std::string ToString() const;
};

// Decodes `tokens` tokens greedily after each prompt. Errors: the verifiers'.
[[nodiscard]] absl::StatusOr<RoundingError> MeasureRounding(Verifier& exact, Verifier& rounded,
                                                            const std::vector<BenchPrompt>& prompts,
                                                            int tokens);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_ROUNDING_H_
