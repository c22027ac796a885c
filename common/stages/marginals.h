// Marginals: a drafter's token distributions for the P positions that follow one node. Plain data.
//
// Struct of arrays, position-major [P, K]. Candidates of a position are sorted by decreasing
// log-probability; ties are sorted by increasing token id. The log-probabilities come from the
// drafter's full softmax, so the probabilities of the K candidates need not sum to one. An empty
// object (P = 0) means "no draft": the tree is the root alone.
//
// A drafter with a rank head also predicts for each position the rank of the target's token among
// the candidates, as a bucket. 0: rank 1. 1: ranks 2 to 4. 2: ranks 5 to 10. 3: beyond 10.
//
// A drafter with a pair selector (DFlash 2) also scores how well a candidate follows another one.
// The scores are added to the logarithms of the probabilities. Only differences within one row
// count: the scores after one candidate may share any offset.
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
inline constexpr float kMaxPairScore = 1e4F;

struct Marginals {
  int positions = 0;                  // P
  int candidates = 0;                 // K
  std::vector<TokenId> tokens;        // [P, K]
  std::vector<float> log_probs;       // [P, K]
  std::vector<uint8_t> buckets = {};  // [P], or empty: the drafter has no rank head.
  // [P, K, K], or empty: the drafter has no pair selector. Row i of position p scores its
  // candidates after candidate i of position p - 1. Position 0 has row 0 alone, after the node; its
  // other rows are 0. Coupled drafting: already divided by the temperature.
  std::vector<float> pair_scores = {};

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

  // The scores of the K candidates of `position` after the candidate `previous_rank` of the
  // position before it; after the node itself if both are 0. REQUIRES: there are pair scores.
  [[nodiscard]] absl::Span<const float> pair_row(int position, int previous_rank) const {
    const size_t row = static_cast<size_t>(position) * candidates + previous_rank;
    return absl::MakeConstSpan(pair_scores).subspan(row * candidates, candidates);
  }

  // INVALID_ARGUMENT unless sizes agree, tokens lie in [0, vocabulary) and differ within a
  // position, log-probabilities are <= 0, sorted and not NaN (-inf is allowed), buckets are below
  // kRankBuckets, and pair scores lie within kMaxPairScore of 0.
  [[nodiscard]] absl::Status Validate(int vocabulary) const;

  friend bool operator==(const Marginals&, const Marginals&) = default;
};

// The first `candidates` candidates of each position, or all if there are not more: the best ones.
[[nodiscard]] Marginals BestCandidates(Marginals all, int candidates);

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_MARGINALS_H_
