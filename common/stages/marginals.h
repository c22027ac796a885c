// Marginals: a drafter's token distributions for the P positions that follow one node. Plain data.
//
// Struct of arrays, position-major [P, K]. Candidates of a position are sorted by decreasing
// log-probability; ties are sorted by increasing token id. The log-probabilities come from the
// drafter's full softmax, so the probabilities of the K candidates need not sum to one. An empty
// object (P = 0) means "no draft": the tree is the root alone.
//
// A drafter with a rank head also predicts for each position the rank of the target's token among
// the candidates, as a bucket. 0: rank 1. 1: ranks 2 to 4. 2: ranks 5 to 10. 3: beyond 10.
#ifndef BASTION_COMMON_STAGES_MARGINALS_H_
#define BASTION_COMMON_STAGES_MARGINALS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

namespace bastion {

// The number of buckets, and the bucket of a position for which none is predicted.
inline constexpr int kRankBuckets = 4;
inline constexpr int kNoBucket = -1;

struct Marginals {
  int positions = 0;                  // P
  int candidates = 0;                 // K
  std::vector<TokenId> tokens;        // [P, K]
  std::vector<float> log_probs;       // [P, K]
  std::vector<uint8_t> buckets = {};  // [P], or empty: the drafter has no rank head.

  [[nodiscard]] bool empty() const { return positions == 0; }
  [[nodiscard]] TokenId token(int position, int rank) const {
    return tokens[static_cast<size_t>(position) * candidates + rank];
  }
  [[nodiscard]] float log_prob(int position, int rank) const {
    return log_probs[static_cast<size_t>(position) * candidates + rank];
  }

  // The bucket of `position`, or kNoBucket.
  [[nodiscard]] int bucket(int position) const {
    return buckets.empty() ? kNoBucket : buckets[position];
  }

  // INVALID_ARGUMENT unless sizes agree, tokens lie in [0, vocabulary) and differ within a
  // position, log-probabilities are <= 0, sorted and not NaN (-inf is allowed), and buckets are
  // below kRankBuckets.
  [[nodiscard]] absl::Status Validate(int vocabulary) const;

  friend bool operator==(const Marginals&, const Marginals&) = default;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_MARGINALS_H_
