// DraftRows: the drafter's own candidates at the places of one draft (cycle_draft.h).
//
// Without pair scores, all nodes of a position share one row: the marginals. With pair scores c, a
// candidate b of position t follows the token a with probability
//
//   p_t(b|a) = m_t · q_t(b) exp(c_t(a, b)) / Σ_b' q_t(b') exp(c_t(a, b'))        m_t = Σ_b' q_t(b')
//
// where q_t(b) is the drafter's probability, and b' runs over the K candidates of the position. The
// mass m_t is the same after every a, because a pair selector compares the candidates of a position
// with each other and says nothing about all other tokens. A token that is not a candidate of
// position t − 1 is followed by the marginals.
//
// A row with pair scores is made when it is first read: at most 1 + (P − 1) K rows per block.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TREE_DRAFT_ROWS_H_
#define BASTION_ORCHESTRATOR_TREE_DRAFT_ROWS_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "orchestrator/tree/candidate_arena.h"
#include "orchestrator/tree/candidate_list.h"
#include "orchestrator/tree/cycle_draft.h"

namespace bastion {

class DraftRows {
 public:
  // The candidates at `place`; empty if it is not known. The list is valid as long as this object
  // and the draft exist. REQUIRES: all places are of one draft.
  [[nodiscard]] CandidateList At(const CycleDraft::Place& place) {
    if (!place.known()) return {};
    return place.pair_row == CycleDraft::kNoPairRow ? Marginal(place) : Paired(place);
  }

 private:
  [[nodiscard]] static CandidateList Marginal(const CycleDraft::Place& place) {
    const Marginals& marginals = *place.marginals;
    const size_t begin = static_cast<size_t>(place.position) * marginals.candidates;
    return {marginals.tokens.data() + begin, marginals.log_probs.data() + begin,
            marginals.candidates, marginals.bucket(place.position)};
  }
  [[nodiscard]] CandidateList Paired(const CycleDraft::Place& place);

  struct MadeRows {
    absl::flat_hash_map<std::pair<int, int>, CandidateList> rows;  // By place and pair row.
    CandidateArena arena;
    // Reused between rows.
    std::vector<double> sums;
    std::vector<ScoredToken> scored;
  };
  std::unique_ptr<MadeRows> made_;  // Null until a row is made.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_DRAFT_ROWS_H_
