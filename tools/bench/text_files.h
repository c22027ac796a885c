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

// Gives the sessions the text of every request of `plans`, if they replay acceptance. The first one
// writes the texts. Shows a progress bar. REQUIRES: the sessions have the same target, and all of
// them replay acceptance or none does; there is at least one.
[[nodiscard]] absl::Status LearnTexts(const std::vector<LoadPlan>& plans,
                                      const BenchSettings& settings,
                                      const std::vector<BenchSession*>& sessions);

// Writes a JSON line {"id", "prompt_tokens", "token_ids"} for the longest text of each prompt.
// UNAVAILABLE if the file cannot be written.
[[nodiscard]] absl::Status WriteTexts(const std::vector<LoadPlan>& plans,
                                      const std::vector<LevelResults>& levels,
                                      const std::string& path);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_TEXT_FILES_H_
