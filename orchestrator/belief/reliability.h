// Reliability: whether tokens that are predicted with probability p are chosen in a share p of the
// cases. For measurements: serving does not collect it.
//
// It counts the verified nodes whose parent the target chose. The stated probability of such a node
// is conditional on its parent. Policies verify the nodes that they think well of, so a table shows
// the probabilities that mattered, not those of all candidates. Plain data. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_BELIEF_RELIABILITY_H_
#define BASTION_ORCHESTRATOR_BELIEF_RELIABILITY_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

class ReliabilityTable {
 public:
  static constexpr int kBins = 10;  // Their widths are equal.
  struct Bin {
    int64_t count = 0;
    int64_t accepted = 0;
    double stated = 0;  // Sum of the stated probabilities.
  };

  // REQUIRES: 0 <= stated <= 1.
  void Observe(double stated, bool accepted);
  void Add(const ReliabilityTable& other);

  [[nodiscard]] const std::array<Bin, kBins>& bins() const { return bins_; }
  [[nodiscard]] int64_t count() const;
  // The expected calibration error: the mean of |mean stated − accepted share| over the bins,
  // weighted by their counts. 0 without counts.
  [[nodiscard]] double expected_calibration_error() const;

 private:
  std::array<Bin, kBins> bins_ = {};
};

struct Reliability {
  ReliabilityTable before;  // The candidates as the drafter or the prior states them.
  ReliabilityTable after;   // Calibrated by past acceptance. Empty for policies that do not.

  void Add(const Reliability& other);
};

// Counts the nodes of `tree`, whose scores are those of the policy. `chosen` are the tokens that
// the target chose after the root. `stated` lists the candidates before calibration; null if the
// policy does not calibrate.
void ObserveReliability(const DraftTree& tree, absl::Span<const TokenId> chosen, Candidates* stated,
                        Reliability* reliability);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BELIEF_RELIABILITY_H_
