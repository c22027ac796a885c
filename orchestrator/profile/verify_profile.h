// Profile: measures the verify time of the real verifier over row counts and context lengths.
// It runs once at startup, before the first request; the estimators (estimator.h) are fitted to the
// result.
//
// The trees have random tokens. Trees of three or more rows branch, because a chain could be
// verified without a tree attention mask. Points are measured round robin, and a point is the
// fastest of its repetitions. So a load spike affects all points alike, and the fastest repetition
// ignores it.
// Consecutive points have similar sizes, like the consecutive forwards of a sequence: a large
// forward evicts the weights from the caches, which makes a small forward after it up to 20 percent
// slower.
//
// A longer context adds attention time, which grows linearly with the rows. The steps in the cost
// come from the matrix multiplications and are the same at every context. So only the first context
// is measured at all row counts; the others are measured at a few. For the remaining row counts,
// the extra time over the first context is interpolated.
//
// How many rows are worth measuring depends on the device. On a GPU, a thousand rows may take a few
// times as long as one, and large trees pay; on a CPU, they take a hundred times as long, and
// measuring them would only delay the start. So the further row counts are measured in ascending
// order, and only while rows are cheap.
#ifndef BASTION_ORCHESTRATOR_PROFILE_VERIFY_PROFILE_H_
#define BASTION_ORCHESTRATOR_PROFILE_VERIFY_PROFILE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/stages/draft_tree.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/latency_profile.h"

namespace bastion {

struct ProfileOptions {
  // Row counts above the verifier's max_rows, and contexts that do not fit, are lowered to the
  // largest value that fits. 17, 33 and 65 show the steps after multiples of 16.
  std::vector<int> row_counts = {1,  2,  3,  4,  5,  6,  8,  10, 12, 16,
                                 17, 20, 24, 32, 33, 48, 64, 65, 96, 128};
  std::vector<int> contexts = {16, 256, 1024};
  // The row counts that are measured at every context, in addition to the smallest and the largest
  // of row_counts.
  std::vector<int> shared_row_counts = {1, 2, 3, 4, 5, 6, 8, 16, 32, 128};
  // Measured after the row counts above, each if the next smaller one takes at most `cheap_ratio`
  // times as long as one row, and if there is time. Trees of 128, 256, 512 and 1024 nodes, and
  // sizes between them. Only the largest one that is measured is measured at every context.
  std::vector<int> further_row_counts = {129, 192, 257, 384, 513, 768, 1025};
  double cheap_ratio = 8;
  // Rounds after the warm-up round, which is not counted. Slow points get only two repetitions.
  int repetitions = 5;
  // Soft limit. Once it is exceeded, no further round starts. If the warm-up round alone takes more
  // than half of the limit, there are no repetitions and the warm-up is the result. If even the
  // warm-up exceeds the limit, it stops there and the points measured so far are the result. The
  // warm-up measures the shared row counts of the first context first, then its other row counts,
  // then the longer contexts. 0: one round over all points, no repetitions.
  absl::Duration time_limit = absl::Seconds(10);
  // Session id of the first sequence. There is one sequence per context: {session, 0}, {session +
  // 1, 0}, …
  uint64_t session = 0;
  // Called after each verify. `done` also counts planned verifies that turned out to be
  // unnecessary. `total` increases once if further row counts are measured.
  std::function<void(int done, int total)> progress = nullptr;
  // MeasureProfileWithBar only. The file that keeps the result (profile_file.h): if it exists,
  // nothing is measured, else it is written. Empty: none.
  std::string file = {};
};

// Opens, prefills, verifies and closes its own sequences; it also closes them after an error.
// Returns the verifier's error; INTERNAL if the verifier reports no time; INVALID_ARGUMENT if no
// point fits the verifier's limits.
[[nodiscard]] absl::StatusOr<LatencyProfile> MeasureProfile(Verifier& verifier, const Clock& clock,
                                                            const ProfileOptions& options);

// MeasureProfile, MeasureSequenceSeconds and, for a target with experts, MeasureExpertSeconds, with
// the real clock and a progress bar on stderr, labeled `what`; or the content of options.file.
// Yields to other users of the verifier (yielding_verifier.h), at the cost of fewer points within
// the time limit. Replaces options.progress. Returns the errors of these functions and of
// ReadProfile. Logs an error of WriteProfile.
[[nodiscard]] absl::StatusOr<LatencyProfile> MeasureProfileWithBar(Verifier& verifier,
                                                                   const std::string& what,
                                                                   ProfileOptions options);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PROFILE_VERIFY_PROFILE_H_
