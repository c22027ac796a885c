// CalibratedCandidates: candidates whose scores are calibrated acceptance probabilities.
//
// Wraps other candidates and applies AcceptanceCalibration and the request's Trust to their scores.
// The path scores of a best-first tree over these candidates are then node values, the tree is
// ordered by value, and every prefix of it is the best tree of its size.
//
// Lists leave out candidates whose value would be below a minimum. One object serves one tree that
// BestFirst grows. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_BELIEF_CALIBRATED_CANDIDATES_H_
#define BASTION_ORCHESTRATOR_BELIEF_CALIBRATED_CANDIDATES_H_

#include <vector>

#include "absl/types/span.h"
#include "orchestrator/belief/acceptance_calibration.h"
#include "orchestrator/tree/candidate_arena.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

class CalibratedCandidates final : public Candidates {
 public:
  // `inner` and `calibration` must outlive this object. `min_value` > 0.
  CalibratedCandidates(Candidates& inner, const AcceptanceCalibration& calibration,
                       const Trust& trust, double min_value);

  [[nodiscard]] int max_depth() const override { return inner_.max_depth(); }
  [[nodiscard]] CandidateList After(const DraftTree& tree, NodeIndex node) override;

 private:
  // The calibrated logarithm of the probability of the candidate of `rank` at `depth`.
  [[nodiscard]] float Calibrated(float log_prob, bool on_spine, int rank, int depth) const;

  Candidates& inner_;
  const AcceptanceCalibration& calibration_;
  const Trust trust_;
  const float min_log_value_;
  // The next node of the spine: child `spine_token_` of `spine_tip_`.
  NodeIndex spine_tip_ = 0;
  TokenId spine_token_ = kNoToken;
  std::vector<ScoredToken> scored_;  // Reused between calls.
  CandidateArena arena_;
};

// Walks along `chosen`, the tokens that the target chose after the root, and records in
// `calibration` and `trust` how its choices agree with `candidates`. Looks at the candidates of the
// root and of every chosen token but the last.
void ObserveChoices(Candidates& candidates, TokenId root, absl::Span<const TokenId> chosen,
                    AcceptanceCalibration* calibration, Trust* trust);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BELIEF_CALIBRATED_CANDIDATES_H_
