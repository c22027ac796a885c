#include "common/stages/marginals.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace bastion {

absl::Status Marginals::Validate(int vocabulary) const {
  if (positions < 0 || candidates < 0)
    return absl::InvalidArgumentError("marginals: negative size");
  const size_t expected = static_cast<size_t>(positions) * candidates;
  if (tokens.size() != expected || log_probs.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "marginals: [", positions, ", ", candidates, "] needs ", expected, " entries, got ",
        tokens.size(), " tokens and ", log_probs.size(), " log-probabilities"));
  }
  if (!buckets.empty() && static_cast<int>(buckets.size()) != positions) {
    return absl::InvalidArgumentError(absl::StrCat("marginals: ", positions, " positions have ",
                                                   buckets.size(), " buckets; ",
                                                   "send one per position, or none"));
  }
  for (size_t p = 0; p < buckets.size(); ++p) {
    if (buckets[p] < kRankBuckets) continue;
    return absl::InvalidArgumentError(absl::StrCat("marginals: position ", p, ": bucket ",
                                                   static_cast<int>(buckets[p]), " is above ",
                                                   kRankBuckets - 1));
  }
  if (!pair_scores.empty() && pair_scores.size() != expected * candidates) {
    return absl::InvalidArgumentError(absl::StrCat("marginals: [", positions, ", ", candidates,
                                                   ", ", candidates, "] pair scores needed, got ",
                                                   pair_scores.size()));
  }
  for (const float score : pair_scores) {
    if (std::abs(score) <= kMaxPairScore) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "marginals: a pair score is ", score, "; it must lie within ", kMaxPairScore, " of 0"));
  }
  absl::flat_hash_set<TokenId> seen;
  seen.reserve(std::min<size_t>(candidates, tokens.size()));
  for (int p = 0; p < positions; ++p) {
    seen.clear();
    for (int r = 0; r < candidates; ++r) {
      if (token(p, r) < 0 || token(p, r) >= vocabulary || !seen.insert(token(p, r)).second) {
        return absl::InvalidArgumentError(absl::StrCat(
            "marginals: position ", p, " rank ", r, ": token ", token(p, r),
            " repeats an earlier candidate or is outside the vocabulary of ", vocabulary));
      }
      const bool sorted = r == 0 || log_prob(p, r) <= log_prob(p, r - 1);
      if (!(log_prob(p, r) <= 0.0f) || !sorted) {
        return absl::InvalidArgumentError(absl::StrCat("marginals: position ", p, " rank ", r,
                                                       ": log-probability ", log_prob(p, r),
                                                       " is above 0, NaN or not sorted"));
      }
    }
  }
  return absl::OkStatus();
}

Marginals BestCandidates(Marginals all, int candidates) {
  if (all.candidates <= candidates) return all;
  Marginals first;
  first.positions = all.positions;
  first.candidates = candidates;
  first.buckets = std::move(all.buckets);
  for (int p = 0; p < all.positions; ++p) {
    for (int r = 0; r < candidates; ++r) {
      first.tokens.push_back(all.token(p, r));
      first.log_probs.push_back(all.log_prob(p, r));
      if (all.pair_scores.empty()) continue;
      const absl::Span<const float> row = all.pair_row(p, r).first(candidates);
      first.pair_scores.insert(first.pair_scores.end(), row.begin(), row.end());
    }
  }
  return first;
}

}  // namespace bastion
