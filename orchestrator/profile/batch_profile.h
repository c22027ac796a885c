// Batch profile: measures what a verify call takes longer if its rows belong to several
// sequences instead of one (the third part of VerifyCost). Runs once at startup, after
// MeasureProfile.
#ifndef BASTION_ORCHESTRATOR_PROFILE_BATCH_PROFILE_H_
#define BASTION_ORCHESTRATOR_PROFILE_BATCH_PROFILE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/stages/stages.h"

namespace bastion {

struct BatchProfileOptions {
  int sequences = 32;  // Lowered to what the verifier can open and hold, and to its max_rows.
  int context = 16;    // Tokens per sequence.
  int repetitions = 9;
  absl::Duration time_limit = absl::Seconds(1);  // No repetition starts after it.
  uint64_t session = 0;  // Sequences are {session, 0}, {session + 1, 0}, …
};

// The seconds that every sequence after the first adds to a call with a given number of rows: the
// least time of `sequences` roots, minus that of one tree with as many rows, per further sequence.
// 0 if it is negative, or if fewer than two sequences can be opened. Closes its sequences. Returns
// the verifier's error.
[[nodiscard]] absl::StatusOr<double> MeasureSequenceSeconds(Verifier& verifier, const Clock& clock,
                                                            const BatchProfileOptions& options);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PROFILE_BATCH_PROFILE_H_
