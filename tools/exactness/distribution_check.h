// The distribution check. It fixes one draft tree and verifies it many times, each time as a new
// sequence with a new seed. A walk is the target's choices from the root to the first choice that
// is not in the tree. The walks must follow the target's own distribution, which is known exactly
// from plain decoding.
//
// Tests compare the first choice of each walk, the first two choices jointly, and the whole walk.
// The joint tests detect choices that are individually correct but wrongly correlated.
#ifndef BASTION_TOOLS_EXACTNESS_DISTRIBUTION_CHECK_H_
#define BASTION_TOOLS_EXACTNESS_DISTRIBUTION_CHECK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/stages/stages.h"
#include "tools/exactness/statistics.h"

namespace bastion {

struct DistributionCheck {
  Verifier* verifier = nullptr;
  Drafter* drafter = nullptr;
  // Short prompts of at least one token, because every walk runs its prompt again. The check uses
  // the prompt whose tree has the largest entropy below the root.
  std::vector<std::vector<TokenId>> prompts;
  std::vector<ChoiceParams> settings;  // Temperatures above 0.
  int tree_nodes = 6;                  // Maximum; fewer if the drafter returns fewer candidates.
  int walks = 50400;                   // Total over all settings.
  int batch_size = 32;                 // Sequences in one forward.
  uint64_t first_seed = 1;
  uint64_t first_session = 0;
  std::function<void(int done, int total)> progress;
};

struct DistributionTest {
  ChoiceParams setting;
  int choices = 0;  // The test compares the first `choices` choices of each walk. 0: all.
  int64_t draws = 0;
  ChiSquare chi_square;
  double total_variation = 0;
  TotalVariationRange expected;    // Total variation of the same number of exact draws.
  double max_total_variation = 0;  // The test fails above this value.
  bool passed = false;
};

struct DistributionReport {
  int tree_rows = 0, tree_depth = 0;
  int64_t walks = 0;
  int64_t choices = 0;  // Tokens chosen in all walks.
  // A test with a smaller p-value fails. A correct target fails any of the tests with probability
  // 1e-4.
  double min_p_value = 0;
  std::vector<DistributionTest> tests;

  // True if all tests passed.
  [[nodiscard]] bool exact() const;
};

// A failed test is not an error. Errors: those of the stages, FAILED_PRECONDITION if the drafter
// returns no candidates for any prompt, DATA_LOSS if the verifier accepts nodes that do not form a
// path.
[[nodiscard]] absl::StatusOr<DistributionReport> CheckDistribution(const DistributionCheck& check);

}  // namespace bastion

#endif  // BASTION_TOOLS_EXACTNESS_DISTRIBUTION_CHECK_H_
