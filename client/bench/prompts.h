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

}  // namespace bastion

#endif  // BASTION_CLIENT_BENCH_PROMPTS_H_
