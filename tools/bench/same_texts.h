// Compares the outputs of all arms: neither speculation nor load may change a token. Thread-safe:
// no state.
#ifndef BASTION_TOOLS_BENCH_SAME_TEXTS_H_
#define BASTION_TOOLS_BENCH_SAME_TEXTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/bench/load_run.h"

namespace bastion {

// How many outputs differ from the first one for the same prompt and limit, over all policies,
// levels and rounds.
struct TextDifferences {
  int outputs = 0;
  int different = 0;
  absl::Status first;  // DATA_LOSS that names the first difference. OK if there is none.

  // "3 of 64 outputs differ: …"
  [[nodiscard]] std::string ToString() const;
};
[[nodiscard]] TextDifferences FindDifferentTexts(const std::vector<LevelResults>& levels);

// DATA_LOSS if two outputs for the same prompt and limit differ, over all policies, levels and
// rounds; the message is that of FindDifferentTexts. INTERNAL if policies ran different numbers of
// requests at the first level, unless `counts_differ`.
[[nodiscard]] absl::Status CheckSameTexts(const std::vector<LevelResults>& levels,
                                          bool counts_differ = false);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_SAME_TEXTS_H_
