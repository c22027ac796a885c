// The distribution check: one draft tree is frozen and verified many times, each time as another
// sequence with a seed of its own. Where the walks end, the tokens on the way and their joint
// occurrence must follow the target's own distribution, which is known exactly from plain decoding.
//
// Each walk's first choice is tested, the first two together, and the whole walk: a walk may have
// the right marginals and still be wrong because its choices hang together.
#ifndef BASTION_CLIENT_EXACTNESS_DISTRIBUTION_CHECK_H_
#define BASTION_CLIENT_EXACTNESS_DISTRIBUTION_CHECK_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "client/exactness/statistics.h"
#include "common/stages/stages.h"

namespace bastion {

struct DistributionCheck {
  Verifier* verifier = nullptr;
  Drafter* drafter = nullptr;
  // Short ones, of at least one token: every walk runs its prompt anew. Of these, the one is taken
  // whose tree leaves most to chance below the root.
  std::vector<std::vector<TokenId>> prompts;
  std::vector<ChoiceParams> settings;  // Temperatures above 0.
  int tree_nodes = 6;                  // At most; fewer where the drafter has no more to say.
  int walks = 50400;                   // Of all settings together.
  int together = 32;                   // Sequences in one forward.
  uint64_t first_seed = 1;
  uint64_t first_session = 0;
  std::function<void(int done, int total)> progress;
};

struct DistributionTest {
  ChoiceParams setting;
  int choices = 0;  // How many of a walk's choices are looked at; 0: all.
  int64_t draws = 0;
  ChiSquare chi_square;
  double total_variation = 0;
  TotalVariationRange expected;     // Of the total variation, for as many exact draws.
  double most_total_variation = 0;  // Above it the test fails.
  bool passed = false;
};

struct DistributionReport {
  int tree_rows = 0, tree_depth = 0;
  int64_t walks = 0;
  int64_t choices = 0;       // Tokens chosen by all walks.
  double least_p_value = 0;  // Below it a test fails: 1e-4 for all tests together.
  std::vector<DistributionTest> tests;

  [[nodiscard]] bool exact() const;
};

// Errors are those of the stages, FAILED_PRECONDITION when the drafter has nothing to say after any
// prompt, DATA_LOSS when the verifier accepts what is no path. A failed test is none.
[[nodiscard]] absl::StatusOr<DistributionReport> CheckDistribution(const DistributionCheck& check);

}  // namespace bastion

#endif  // BASTION_CLIENT_EXACTNESS_DISTRIBUTION_CHECK_H_
