// The spread of a ratio of rates over prompts. Thread-safe: no state.
#ifndef BASTION_TOOLS_BENCH_BOOTSTRAP_H_
#define BASTION_TOOLS_BENCH_BOOTSTRAP_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace bastion {

// The work of two arms on the same prompt.
struct PairedWork {
  double tokens = 0, seconds = 0;            // The arm.
  double base_tokens = 0, base_seconds = 0;  // The baseline.
};

// (Σ tokens / Σ seconds) / (Σ base_tokens / Σ base_seconds). 0 if a sum that divides is 0.
[[nodiscard]] double RateRatio(const std::vector<PairedWork>& prompts);

struct Interval {
  double low = 0, high = 0;
};

// The 95 % interval of RateRatio by the percentile bootstrap: prompts are drawn with replacement,
// each with both of its arms. The same input gives the same interval. nullopt with fewer than two
// prompts.
[[nodiscard]] std::optional<Interval> BootstrapRatio(const std::vector<PairedWork>& prompts,
                                                     int draws = 1000, uint64_t seed = 1);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_BOOTSTRAP_H_
