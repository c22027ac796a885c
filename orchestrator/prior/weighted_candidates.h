// Candidate rows that look at the path: what a drafter says of a position, and what the transition
// prior says of the tokens before it (evidence_weights.h tells how the two are weighed).
//
// EvidenceRows scores the drafter's candidates and those that the prior proposes besides; a
// position's scores are normalised to the mass that the drafter's candidates had:
//
//   score(x) = w_d · t(x) − log Σ_x' exp(w_d · t(x')) + log Σ_{x' in top K} q(x')
//
// PriorRows has no drafter: P(x) takes the place of q, and the tokens that the prior has not seen
// here share what is left.
// Of a node's candidates only so many of the best are listed as the caller can use.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PRIOR_WEIGHTED_CANDIDATES_H_
#define BASTION_ORCHESTRATOR_PRIOR_WEIGHTED_CANDIDATES_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "orchestrator/prior/evidence_weights.h"
#include "orchestrator/prior/transition_prior.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// The rows that were handed out, where they stay. A row depends on the position and the tokens
// before it alone: paths that share these share the row.
class RowStore {
 public:
  struct Scored {
    TokenId token;
    float log_score;
  };
  using Key = std::pair<int, RecentTokens>;  // Position, and what is before it.

  explicit RowStore(int most_children) : most_children_(most_children) {}

  [[nodiscard]] const CandidateRow* Find(const Key& key) const;
  // Keeps the best of `ranked` (already so) and `loose` (sorted here), all scores plus `shift`.
  CandidateRow Merge(const Key& key, absl::Span<const Scored> ranked, std::vector<Scored>& loose,
                     float shift);

 private:
  struct Row {
    TokenId* tokens;
    float* log_scores;
  };
  struct Chunk {
    std::unique_ptr<TokenId[]> tokens;
    std::unique_ptr<float[]> log_scores;
  };
  static constexpr int kRowsPerChunk = 16;
  Row NewRow();

  const int most_children_;
  std::vector<Chunk> chunks_;
  int free_ = 0;  // Rows of the last chunk.
  absl::flat_hash_map<Key, CandidateRow> known_;
};

class EvidenceRows final : public CandidateRows {
 public:
  // Without a prior only the drafter's weight counts. Nothing is owned; all must outlive this.
  EvidenceRows(const Marginals& marginals, int depth, const TransitionPrior* prior,
               const EvidenceWeights* weights, int most_children = 32);

  [[nodiscard]] int positions() const override { return positions_; }
  [[nodiscard]] CandidateRow After(const DraftTree& tree, NodeIndex node) const override;

  // Teaches `weights` what the target picked after the root: `settled` are its tokens in order. A
  // pick that is no candidate says nothing of how to weigh those that are.
  // REQUIRES: the prior stands where it stood when the marginals were made.
  static void Learn(const Marginals& marginals, const TransitionPrior* prior,
                    absl::Span<const TokenId> settled, EvidenceWeights* weights);

 private:
  // A position's candidates by the drafter's term alone.
  struct Base {
    std::vector<RowStore::Scored> ranked;  // Those above zero.
    double sum = 0;                        // Σ exp(score)
    float log_mass = 0;                    // log Σ q
    std::vector<uint16_t> slots;           // Open addressing by token: rank + 1, 0 where free.
    bool made = false;

    [[nodiscard]] int RankOf(TokenId token) const;  // −1 for a token that is not listed.
  };
  // Made when a node first asks for it: most trees are not that deep.
  [[nodiscard]] const Base& BaseOf(int position) const;

  const Marginals& marginals_;
  const int positions_;
  const TransitionPrior* const prior_;
  const EvidenceWeights* const weights_;
  mutable std::vector<Base> bases_;
  mutable RowStore rows_;
  mutable EvidenceList evidence_;
  mutable std::vector<RowStore::Scored> rest_, loose_;
};

class PriorRows final : public CandidateRows {
 public:
  // Neither is owned; both must outlive this.
  PriorRows(int depth, const TransitionPrior* prior, const EvidenceWeights* weights,
            int most_children = 32)
      : positions_(depth), prior_(prior), weights_(weights), rows_(most_children) {}

  [[nodiscard]] int positions() const override { return positions_; }
  [[nodiscard]] CandidateRow After(const DraftTree& tree, NodeIndex node) const override;

  // As EvidenceRows::Learn.
  static void Learn(const TransitionPrior& prior, absl::Span<const TokenId> settled,
                    EvidenceWeights* weights);

 private:
  const int positions_;
  const TransitionPrior* const prior_;
  const EvidenceWeights* const weights_;
  mutable RowStore rows_;
  mutable EvidenceList evidence_;
  mutable std::vector<RowStore::Scored> loose_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_WEIGHTED_CANDIDATES_H_
