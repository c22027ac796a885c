// CandidateWeights: how much the drafter and each source of the prior count in a candidate's score,
// learned from the target's choices. See transition_prior.h for the terminology.
//
// A candidate x has terms t(x): the drafter's log-probability, whether the drafter left x out of
// its top K, the gain of every source, and the drafter's pair score. The target's choice among the
// candidates is modeled as
//
//   P(x) ∝ exp(Σ_i w_{d,i} · t_i(x))
//
// with separate weights for every depth d. Each observed choice moves the weights by an online
// Newton step on log P(chosen): the gradient is t(chosen) − E[t], the curvature is Cov[t]. The
// curvature is summed with a decay over about kMemory observations at the depth. The weight of a
// misleading source drops to 0. The weight of the drafter acts as an inverse temperature: it is
// large where drafter and target agree, as with coupled drafts of a good drafter. A weight whose
// term is 0 for all candidates does not move.
//
// Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PRIOR_CANDIDATE_WEIGHTS_H_
#define BASTION_ORCHESTRATOR_PRIOR_CANDIDATE_WEIGHTS_H_

#include <array>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "orchestrator/prior/transition_prior.h"

namespace bastion {

// Index of a term. kDraftTerm: the drafter's log-probability. kOutsideTerm: 1 if the drafter left
// the candidate out of its top K, else 0. kFirstGainTerm + s: the gain of source s. kPairTerm: the
// pair score of the candidate after the token before it (marginals.h), minus the mean of the
// drafter's candidates there, so that 0 says nothing. 0 without pair scores.
enum CandidateTerm : int {
  kDraftTerm,
  kOutsideTerm,
  kFirstGainTerm,
  kPairTerm = kFirstGainTerm + kPriorSources,
};
inline constexpr int kCandidateTerms = kPairTerm + 1;
using CandidateTerms = std::array<float, kCandidateTerms>;

class CandidateWeights {
 public:
  static constexpr int kMaxDepth = 16;  // Deeper positions use the weights of this depth.
  static constexpr double kMemory = 256;
  static constexpr double kInitialCurvature = 16;
  static constexpr float kMinDraftWeight = 0.25, kMaxDraftWeight = 4;
  static constexpr float kMinOutsideWeight = -8, kMaxOutsideWeight = 2;
  static constexpr float kMaxGainWeight = 2;
  static constexpr float kMaxPairWeight = 2;

  // Initial weights for the candidates of a drafter. At depth 1 the drafter knows all tokens
  // before the candidate, so gains start lower there than deeper. The pair score counts as much as
  // the drafter's log-probability, as in the selector that it comes from.
  [[nodiscard]] static CandidateWeights ForDrafts();
  // Initial weights for candidates of the prior alone. All gains have weight 1, which gives the
  // prior's own estimate.
  [[nodiscard]] static CandidateWeights ForPriorAlone();

  // REQUIRES: depth >= 1.
  [[nodiscard]] const CandidateTerms& At(int depth) const { return cells_[Cell(depth)].weights; }

  // w_d · t
  [[nodiscard]] static float Score(const CandidateTerms& weights, const CandidateTerms& terms) {
    float score = 0;
    for (int i = 0; i < kCandidateTerms; ++i) score += weights[i] * terms[i];
    return score;
  }

  // Takes one learning step: at `depth`, the target chose candidates[chosen]. Ignores a step that
  // is not finite. REQUIRES: depth >= 1, chosen < candidates.size().
  void Update(int depth, absl::Span<const CandidateTerms> candidates, size_t chosen);

  // [kMaxDepth, kCandidateTerms, 1 + kCandidateTerms] The weight and the row of the curvature of
  // each term. As stored in a file.
  [[nodiscard]] std::vector<float> ToValues() const;
  // The size of ToValues().
  [[nodiscard]] static constexpr size_t values_size() {
    return size_t{kMaxDepth} * kCandidateTerms * (1 + kCandidateTerms);
  }
  // INVALID_ARGUMENT if the size is wrong or a value is not finite. Weights are limited to their
  // ranges.
  [[nodiscard]] static absl::StatusOr<CandidateWeights> FromValues(absl::Span<const float> values);

 private:
  using Matrix = std::array<std::array<double, kCandidateTerms>, kCandidateTerms>;
  struct DepthCell {
    CandidateTerms weights;
    Matrix curvature{};
  };
  static int Cell(int depth) { return depth < kMaxDepth ? depth - 1 : kMaxDepth - 1; }

  std::array<DepthCell, kMaxDepth> cells_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_CANDIDATE_WEIGHTS_H_
