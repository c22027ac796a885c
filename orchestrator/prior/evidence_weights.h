// EvidenceWeights: how much each kind of evidence about a candidate counts, learned from outcomes.
//
// A candidate x is described by its terms t(x): the drafter's log-probability, whether the drafter
// left it out of its top K, and the gain of every source of the transition prior. What the target
// picks is taken to be
//
//   P(x) ∝ exp(Σ_i w_{d,i} · t_i(x))
//
// over the candidates, with weights of their own for every depth d. After every cycle they take an
// online Newton step on log P of what was picked: the gradient is t(picked) − E[t], the curvature
// Cov[t], whose sum fades over about kSteps observations of the depth. A source that misleads is so
// turned down to 0, and the drafter's weight is the sharpness of its guesses: large where it and
// the target agree, as with coupled drafts of a good drafter.
//
// Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PRIOR_EVIDENCE_WEIGHTS_H_
#define BASTION_ORCHESTRATOR_PRIOR_EVIDENCE_WEIGHTS_H_

#include <array>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/prior/transition_prior.h"

namespace bastion {

enum EvidenceTerm : int { kDraftTerm, kOutsideTerm, kFirstGainTerm };
inline constexpr int kEvidenceTerms = kFirstGainTerm + kEvidenceSources;
using EvidenceTerms = std::array<float, kEvidenceTerms>;

class EvidenceWeights {
 public:
  static constexpr int kMaxDepth = 16;  // Deeper positions share the last one's.
  static constexpr double kSteps = 256;
  static constexpr double kPriorCurvature = 16;
  static constexpr float kLeastDraft = 0.25, kMostDraft = 4;
  static constexpr float kLeastOutside = -8, kMostOutside = 2;
  static constexpr float kMostGain = 2;

  // For the candidates of a drafter. At depth 1 it knows the root, so the prior tells it little.
  [[nodiscard]] static EvidenceWeights OfDrafts();
  // For candidates that only the prior proposes: all gains count in full, which is its own
  // estimate.
  [[nodiscard]] static EvidenceWeights OfPriorAlone();

  // REQUIRES: depth >= 1.
  [[nodiscard]] const EvidenceTerms& At(int depth) const { return cells_[Cell(depth)].weights; }

  // w_d · t
  [[nodiscard]] static float Score(const EvidenceTerms& weights, const EvidenceTerms& terms) {
    float score = 0;
    for (int i = 0; i < kEvidenceTerms; ++i) score += weights[i] * terms[i];
    return score;
  }

  // Of `candidates` at `depth` the target picked the one at index `picked`. A lesson that is not
  // finite teaches nothing.
  void Learn(int depth, absl::Span<const EvidenceTerms> candidates, size_t picked);

 private:
  using Matrix = std::array<std::array<double, kEvidenceTerms>, kEvidenceTerms>;
  struct DepthCell {
    EvidenceTerms weights;
    Matrix curvature{};
  };
  static int Cell(int depth) { return depth < kMaxDepth ? depth - 1 : kMaxDepth - 1; }

  std::array<DepthCell, kMaxDepth> cells_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_EVIDENCE_WEIGHTS_H_
