// Prompts of a benchmark.
#ifndef BASTION_CLIENT_BENCH_PROMPTS_H_
#define BASTION_CLIENT_BENCH_PROMPTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/bench/measurement.h"

namespace bastion {

// Reads JSON lines {"id", "text"} or {"id", "token_ids"}; text goes through the tokenizer of
// `target_folder`. Errors name the file and the line.
[[nodiscard]] absl::StatusOr<std::vector<BenchPrompt>> LoadPrompts(
    const std::string& file, const std::string& target_folder);

// Prompts that no corpus has, the same for the same seed: tokens drawn at random, runs of one
// token, and short phrases over and over, 2 to 40 tokens long.
[[nodiscard]] std::vector<BenchPrompt> SyntheticPrompts(int count, int vocabulary, uint64_t seed);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_PROMPTS_H_
