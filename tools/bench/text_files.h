// The texts of a benchmark: plain decoding writes them before acceptance is replayed, and a file
// keeps them for a drafter service that replays acceptance.
#ifndef BASTION_TOOLS_BENCH_TEXT_FILES_H_
#define BASTION_TOOLS_BENCH_TEXT_FILES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/bench_session.h"
#include "tools/bench/load_run.h"

namespace bastion {

// Gives the session the text of every request of `plans`, if it replays acceptance, and nothing
// else. Shows a progress bar.
[[nodiscard]] absl::Status LearnTexts(const std::vector<LoadPlan>& plans,
                                      const BenchSettings& settings, BenchSession& session);

// Writes a JSON line {"id", "prompt_tokens", "token_ids"} for the longest text of each prompt.
// UNAVAILABLE if the file cannot be written.
[[nodiscard]] absl::Status WriteTexts(const std::vector<LoadPlan>& plans,
                                      const std::vector<LevelResults>& levels,
                                      const std::string& path);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_TEXT_FILES_H_
