#include "orchestrator/prior/evidence_weights.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace bastion {
namespace {

using Vector = std::array<double, kEvidenceTerms>;
using Matrix = std::array<Vector, kEvidenceTerms>;

//                                       q   out  table     learned   request
constexpr EvidenceTerms kFirstDraft = {1, -0.5f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.3f, 0.5f};
constexpr EvidenceTerms kDeepDraft = {1, -0.5f, 0.4f, 0.4f, 0.4f, 0.4f, 0.4f, 0.6f, 0.8f};
constexpr EvidenceTerms kPriorAlone = {1, 0, 1, 1, 1, 1, 1, 1, 1};

struct Moments {
  Vector mean{};
  Matrix second{};  // Lower triangle of E[t tᵀ].
};

// Under softmax(w · t).
Moments MomentsOf(absl::Span<const EvidenceTerms> candidates, const EvidenceTerms& weights) {
  std::vector<float> scores;
  scores.reserve(candidates.size());
  for (const EvidenceTerms& terms : candidates) {
    scores.push_back(EvidenceWeights::Score(weights, terms));
  }
  const float highest = *std::max_element(scores.begin(), scores.end());
  Moments moments;
  double sum = 0;
  for (size_t k = 0; k < candidates.size(); ++k) {
    constexpr float kNegligible = -12;
    if (scores[k] < highest + kNegligible) continue;
    const EvidenceTerms& terms = candidates[k];
    const double mass = std::exp(scores[k] - highest);
    sum += mass;
    for (int i = 0; i < kEvidenceTerms; ++i) {
      if (terms[i] == 0) continue;  // Most are: the evidence is sparse.
      moments.mean[i] += mass * terms[i];
      for (int j = 0; j <= i; ++j) moments.second[i][j] += mass * terms[i] * terms[j];
    }
  }
  for (int i = 0; i < kEvidenceTerms; ++i) {
    moments.mean[i] /= sum;
    for (int j = 0; j <= i; ++j) moments.second[i][j] /= sum;
  }
  return moments;
}

// x with `matrix` x = `right`, by Cholesky. Only the lower triangle is read. REQUIRES: positive
// definite.
Vector Solve(Matrix matrix, Vector right) {
  for (int i = 0; i < kEvidenceTerms; ++i) {
    for (int j = 0; j <= i; ++j) {
      double sum = matrix[i][j];
      for (int k = 0; k < j; ++k) sum -= matrix[i][k] * matrix[j][k];
      matrix[i][j] = i == j ? std::sqrt(std::max(sum, 1e-9)) : sum / matrix[j][j];
    }
  }
  for (int i = 0; i < kEvidenceTerms; ++i) {
    for (int k = 0; k < i; ++k) right[i] -= matrix[i][k] * right[k];
    right[i] /= matrix[i][i];
  }
  for (int i = kEvidenceTerms - 1; i >= 0; --i) {
    for (int k = i + 1; k < kEvidenceTerms; ++k) right[i] -= matrix[k][i] * right[k];
    right[i] /= matrix[i][i];
  }
  return right;
}

float Clamped(int term, float weight) {
  if (term == kDraftTerm) {
    return std::clamp(weight, EvidenceWeights::kLeastDraft, EvidenceWeights::kMostDraft);
  }
  if (term == kOutsideTerm) {
    return std::clamp(weight, EvidenceWeights::kLeastOutside, EvidenceWeights::kMostOutside);
  }
  return std::clamp(weight, 0.0f, EvidenceWeights::kMostGain);
}

}  // namespace

EvidenceWeights EvidenceWeights::OfDrafts() {
  EvidenceWeights weights;
  for (DepthCell& cell : weights.cells_) cell.weights = kDeepDraft;
  weights.cells_[0].weights = kFirstDraft;
  return weights;
}

EvidenceWeights EvidenceWeights::OfPriorAlone() {
  EvidenceWeights weights;
  for (DepthCell& cell : weights.cells_) cell.weights = kPriorAlone;
  return weights;
}

void EvidenceWeights::Learn(int depth, absl::Span<const EvidenceTerms> candidates, size_t picked) {
  CHECK(depth >= 1 && picked < candidates.size());
  DepthCell& cell = cells_[Cell(depth)];
  const Moments moments = MomentsOf(candidates, cell.weights);
  Vector gradient;
  Matrix curvature{};
  for (int i = 0; i < kEvidenceTerms; ++i) {
    gradient[i] = candidates[picked][i] - moments.mean[i];
    for (int j = 0; j <= i; ++j) {
      curvature[i][j] = (1 - 1 / kSteps) * cell.curvature[i][j] + moments.second[i][j] -
                        moments.mean[i] * moments.mean[j];
    }
  }
  Matrix damped = curvature;
  for (int i = 0; i < kEvidenceTerms; ++i) damped[i][i] += kPriorCurvature;
  const Vector step = Solve(damped, gradient);
  if (!std::all_of(step.begin(), step.end(), [](double s) { return std::isfinite(s); })) return;
  cell.curvature = curvature;
  for (int i = 0; i < kEvidenceTerms; ++i) {
    cell.weights[i] = Clamped(i, cell.weights[i] + static_cast<float>(step[i]));
  }
}

}  // namespace bastion
