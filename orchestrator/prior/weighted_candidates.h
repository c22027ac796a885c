// Candidates that depend on the path: WeightedCandidates combines the drafter's candidates with the
// prior, PriorCandidates uses the prior alone. See transition_prior.h for the terminology, and
// candidate_weights.h for the weights w and the terms t.
//
// WeightedCandidates scores the drafter's candidates and the tokens that only the prior proposes.
// The scores of a position are normalized to the mass that the drafter gave its candidates:
//
//   score(x) = w_d · t(x) − log Σ_x' exp(w_d · t(x')) + log Σ_{x' in top K} q(x')
//
// If the drafter sends pair scores, the terms depend on the candidate before x, and places of one
// position are scored once for each of them. Without a prior and with the initial weights, the
// scores are those of DraftRows.
//
// PriorCandidates uses P(x) in place of the drafter's probability q(x). Tokens that the prior has
// not seen in the context share the rest of the mass.
//
// Each node lists only its `max_children` best candidates. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PRIOR_WEIGHTED_CANDIDATES_H_
#define BASTION_ORCHESTRATOR_PRIOR_WEIGHTED_CANDIDATES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "orchestrator/prior/candidate_weights.h"
#include "orchestrator/prior/transition_prior.h"
#include "orchestrator/tree/candidate_arena.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

// Keeps the candidate lists returned so far. A list depends only on the place in the draft and the
// tokens before it, so paths that agree in both share one list.
class CandidateCache {
 public:
  // CycleDraft::Place::index, or the depth without a draft; the tokens before it.
  using Key = std::pair<int, RecentTokens>;

  explicit CandidateCache(int max_children) : max_children_(max_children) {}

  // The list of `key`, or null.
  [[nodiscard]] const CandidateList* Find(const Key& key) const;
  // Merges `ranked` (in descending order of score) and `unsorted` (which this call sorts), adds
  // `shift` to all scores, and stores the best candidates as the list of `key`.
  CandidateList Insert(const Key& key, int bucket, absl::Span<const ScoredToken> ranked,
                       std::vector<ScoredToken>& unsorted, float shift);

 private:
  const int max_children_;
  CandidateArena arena_;
  std::vector<ScoredToken> merged_;  // Reused between calls.
  absl::flat_hash_map<Key, CandidateList> lists_;
};

class WeightedCandidates final : public Candidates {
 public:
  // Lists candidates for depths below `depth`. `prior` may be null; then only the drafter's weights
  // count. Owns nothing; all arguments must outlive this object.
  WeightedCandidates(CycleDraft& draft, int depth, const TransitionPrior* prior,
                     const CandidateWeights* weights, int max_children = 32);

  [[nodiscard]] int max_depth() const override { return max_depth_; }
  [[nodiscard]] CandidateList After(const DraftTree& tree, NodeIndex node) override;
  [[nodiscard]] CandidateList InBlock(const DraftTree& tree, NodeIndex start,
                                      NodeIndex node) override;

  // Updates `weights` with the target's choices: `chosen` contains the tokens that the target chose
  // after the root, in order. Skips a position whose chosen token is not a candidate, because it
  // says nothing about how to weigh the candidates.
  // REQUIRES: no token has been appended to `prior` since the draft was made.
  static void UpdateWeights(const CycleDraft& draft, const TransitionPrior* prior,
                            absl::Span<const TokenId> chosen, CandidateWeights* weights);

 private:
  // The candidates of one place of the draft with scores from the drafter's terms alone.
  struct DraftScores {
    std::vector<ScoredToken> ranked;  // Candidates with non-zero probability, best first.
    double sum = 0;                   // Σ exp(score)
    float log_mass = 0;               // log Σ q
    float lowest = 0;             // The score of the least probable one, without its pair score.
    std::vector<uint16_t> slots;  // By hash of the token: index in `ranked` + 1. 0: free.
    bool ready = false;

    // The index in `ranked`; −1 for a token that is not listed.
    [[nodiscard]] int RankOf(TokenId token) const;
    void FillSlots();
  };
  // The candidates after `node`, whose distribution is `place`.
  [[nodiscard]] CandidateList ListAt(const CycleDraft::Place& place, const DraftTree& tree,
                                     NodeIndex node);
  // Computed on first use, because most trees do not reach the deep places.
  [[nodiscard]] const DraftScores& DraftScoresAt(const CycleDraft::Place& place, int depth);

  CycleDraft& draft_;
  const int max_depth_;
  const TransitionPrior* const prior_;
  const CandidateWeights* const weights_;
  std::vector<DraftScores> draft_scores_;  // [places] Without pair scores.
  absl::flat_hash_map<std::pair<int, int>, DraftScores> pair_scores_;  // By place and pair row.
  CandidateCache cache_;
  // Reused between calls of After().
  GainList gains_;
  std::vector<ScoredToken> unchanged_, rescored_;
};

class PriorCandidates final : public Candidates {
 public:
  // Owns nothing; `prior` and `weights` must outlive this object.
  PriorCandidates(int depth, const TransitionPrior* prior, const CandidateWeights* weights,
                  int max_children = 32)
      : max_depth_(depth), prior_(prior), weights_(weights), cache_(max_children) {}

  [[nodiscard]] int max_depth() const override { return max_depth_; }
  [[nodiscard]] CandidateList After(const DraftTree& tree, NodeIndex node) override;

  // Updates `weights` with the target's choices, like WeightedCandidates::UpdateWeights.
  static void UpdateWeights(const TransitionPrior& prior, absl::Span<const TokenId> chosen,
                            CandidateWeights* weights);

 private:
  const int max_depth_;
  const TransitionPrior* const prior_;
  const CandidateWeights* const weights_;
  CandidateCache cache_;
  // Reused between calls of After().
  GainList gains_;
  std::vector<ScoredToken> rescored_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_WEIGHTED_CANDIDATES_H_
