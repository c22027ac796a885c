// Calibration: measures how long the real verifier takes, over row counts and context lengths, with
// the tree mask on. Done once at start, before the first request; the estimators are fitted to it.
//
// The trees are of random tokens and really branch (a chain could be verified without a mask; one
// and two rows cannot branch). Points are measured round robin and a point is the median of its
// repetitions, so that a busy moment of the machine hits all points alike and counts for none.
// Points that follow each other are alike, as the forwards of a sequence are: a small one behind a
// big one finds the weights gone from the caches, and takes up to a fifth longer.
//
// What a longer context costs is attention, which grows evenly with the rows; the steps are those
// of the matrices, the same in every context. So all row counts are measured in the first context
// alone, a few in the others, and between those few the difference to the first is interpolated.
#ifndef BASTION_ORCHESTRATOR_COST_CALIBRATION_H_
#define BASTION_ORCHESTRATOR_COST_CALIBRATION_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/stages/draft_tree.h"
#include "common/stages/stages.h"
#include "orchestrator/cost/calibration_table.h"

namespace bastion {

struct CalibrationOptions {
  // Rows beyond the verifier's max_rows and contexts that do not fit are lowered to what fits. 17,
  // 33 and 65 show the steps behind the multiples of 16.
  std::vector<int> row_counts = {1,  2,  3,  4,  5,  6,  8,  10, 12, 16,
                                 17, 20, 24, 32, 33, 48, 64, 65, 96, 128};
  std::vector<int> contexts = {16, 256, 1024};
  // Those of row_counts that are measured in every context; the least and the most always are.
  std::vector<int> shared_row_counts = {1, 2, 3, 4, 5, 6, 8, 16, 32, 128};
  // Beside one round of warm-up that is not counted. Two are enough where they take long: the noise
  // of a machine does not grow with them.
  int repetitions = 5;
  // No new round is begun after this long, and no repetition that looks like taking longer: then
  // the warm-up is the result. That itself ends here with what it has: the shared row counts of the
  // first context come first, then its others, then longer contexts. Zero: it is the result, whole.
  absl::Duration time_limit = absl::Seconds(10);
  // Sequences are opened as {session, 0}, {session + 1, 0}, …, one per context.
  uint64_t session = 0;
  // Called with the number of verifies that are done, or were found to be not needed, and the
  // number planned.
  std::function<void(int done, int total)> progress = nullptr;
};

// Opens, prefills, verifies and closes sequences of its own; those that it opened are closed again
// in any case. Fails with the verifier's status, or INTERNAL when it reports no time.
[[nodiscard]] absl::StatusOr<CalibrationTable> Calibrate(Verifier& verifier, const Clock& clock,
                                                         const CalibrationOptions& options);

// The same with a progress bar on stderr that says `what`, in place of options.progress.
[[nodiscard]] absl::StatusOr<CalibrationTable> CalibrateWithBar(Verifier& verifier,
                                                                const std::string& what,
                                                                CalibrationOptions options);

// A tree of `rows` rows with random tokens below `vocabulary`; from three rows on it branches.
// REQUIRES: 1 <= rows <= vocabulary.
[[nodiscard]] DraftTree RandomTree(int rows, int vocabulary, uint64_t seed);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_CALIBRATION_H_
