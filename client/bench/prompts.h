// Prompts for a benchmark: from a file, or synthetic.
#ifndef BASTION_CLIENT_BENCH_PROMPTS_H_
#define BASTION_CLIENT_BENCH_PROMPTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/bench/measurement.h"

namespace bastion {

// Reads JSON lines {"id", "text"} or {"id", "token_ids"}. The tokenizer in `target_folder` converts
// text to tokens. Errors name the file and the line.
[[nodiscard]] absl::StatusOr<std::vector<BenchPrompt>> LoadPrompts(
    const std::string& file, const std::string& target_folder);

// Makes prompts of 2 to 40 tokens that occur in no corpus: random tokens, and repeated phrases of 1
// to 4 random tokens. The same seed gives the same prompts.
[[nodiscard]] std::vector<BenchPrompt> SyntheticPrompts(int count, int vocabulary, uint64_t seed);

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_PROMPTS_H_
