#include "orchestrator/tree/draft_rows.h"

#include <algorithm>
#include <cmath>

namespace bastion {

CandidateList DraftRows::Paired(const CycleDraft::Place& place) {
  if (made_ == nullptr) made_ = std::make_unique<MadeRows>();
  auto& [rows, arena, sums, scored] = *made_;
  const auto [row, added] = rows.try_emplace({place.index, place.pair_row});
  if (!added) return row->second;
  const CandidateList marginal = Marginal(place);
  const absl::Span<const float> pairs = place.marginals->pair_row(place.position, place.pair_row);
  // Candidates are sorted, so the first one has probability 0 only if all have.
  if (std::isinf(marginal.log_scores[0])) return row->second = marginal;
  sums.clear();
  for (int rank = 0; rank < marginal.size; ++rank) {
    sums.push_back(double{marginal.log_scores[rank]} + double{pairs[rank]});
  }
  const double first = marginal.log_scores[0];
  const double highest = *std::max_element(sums.begin(), sums.end());
  double mass = 0, sum = 0;  // Divided by exp(first) and exp(highest), so that neither overflows.
  for (int rank = 0; rank < marginal.size; ++rank) {
    mass += std::exp(double{marginal.log_scores[rank]} - first);
    sum += std::exp(sums[rank] - highest);
  }
  const double shift = std::min(0.0, first + std::log(mass)) - highest - std::log(sum);
  scored.clear();
  for (int rank = 0; rank < marginal.size; ++rank) {
    const auto log_score = static_cast<float>(std::min(0.0, sums[rank] + shift));
    scored.push_back({marginal.tokens[rank], log_score});
  }
  SortBestFirst(scored);
  row->second = arena.Store(scored);
  row->second.bucket = marginal.bucket;
  return row->second;
}

}  // namespace bastion
