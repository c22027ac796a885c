// Measures the fidelity of int8 weights: compares an int8 target with the same weights in bf16.
// Both decode the text that the bf16 target generates. Decoding with an int8 target is lossless
// with respect to that target; this measures its distance from the bf16 model.
#ifndef BASTION_TOOLS_BENCH_ROUNDING_H_
#define BASTION_TOOLS_BENCH_ROUNDING_H_

#include <string>
#include <vector>

#include "common/stages/stages.h"
#include "tools/bench/measurement.h"

namespace bastion {

struct RoundingError {
  int positions = 0;
  int same_choice = 0;             // Positions where both have the same most likely token.
  double log_prob_difference = 0;  // Mean |Δ log p| of the token that the bf16 target chooses.

  [[nodiscard]] std::string ToString() const;
};

// Generates `tokens` tokens after each prompt, greedily, with `exact` (bf16), and runs `rounded`
// (int8) over the same text. Returns the error of a verifier call that fails.
[[nodiscard]] absl::StatusOr<RoundingError> MeasureRounding(Verifier& exact, Verifier& rounded,
                                                            const std::vector<BenchPrompt>& prompts,
                                                            int tokens);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_ROUNDING_H_
