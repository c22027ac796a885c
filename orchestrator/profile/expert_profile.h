// Expert profile: measures what a verify call takes longer for each expert that it touches, for
// a target with a mixture of experts (ExpertCost). Runs once at startup, after MeasureProfile.
#ifndef BASTION_ORCHESTRATOR_PROFILE_EXPERT_PROFILE_H_
#define BASTION_ORCHESTRATOR_PROFILE_EXPERT_PROFILE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/stages/stages.h"

namespace bastion {

struct ExpertProfileOptions {
  // Row counts that do not fit into a forward, the KV cache or the maximum context are left out.
  std::vector<int> row_counts = {4, 8, 16, 32};
  int context = 16;  // Tokens before the rows.
  int repetitions = 9;
  absl::Duration time_limit = absl::Seconds(1);  // No repetition starts after it.
  uint64_t session = 0;
};

// Seconds per expert. The number of experts is a mean over layers (TimingTrace::experts). The
// function compares two chains with the same number of rows: one of different tokens, and one that
// repeats a token and touches few experts. 0 if no row count fits, or if more experts take no more
// time. Closes its sequences. Returns the verifier's error.
[[nodiscard]] absl::StatusOr<double> MeasureExpertSeconds(Verifier& verifier, const Clock& clock,
                                                          const ExpertProfileOptions& options);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PROFILE_EXPERT_PROFILE_H_
