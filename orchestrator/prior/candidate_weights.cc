#include "orchestrator/prior/candidate_weights.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace bastion {
namespace {

using Vector = std::array<double, kCandidateTerms>;
using Matrix = std::array<Vector, kCandidateTerms>;

// Columns:                             draft outside table   learned     request           pair
constexpr CandidateTerms kFirstDraft = {1, -0.5f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.3f, 0.5f, 1};
constexpr CandidateTerms kDeepDraft = {1, -0.5f, 0.4f, 0.4f, 0.4f, 0.4f, 0.4f, 0.6f, 0.8f, 1};
constexpr CandidateTerms kPriorAlone = {1, 0, 1, 1, 1, 1, 1, 1, 1, 0};

struct Moments {
  Vector mean{};
  Matrix second{};  // Lower triangle of E[t tᵀ].
};

// The moments of the terms t under softmax(w · t).
Moments MomentsOf(absl::Span<const CandidateTerms> candidates, const CandidateTerms& weights) {
  std::vector<float> scores;
  scores.reserve(candidates.size());
  for (const CandidateTerms& terms : candidates) {
    scores.push_back(CandidateWeights::Score(weights, terms));
  }
  const float highest = *std::max_element(scores.begin(), scores.end());
  Moments moments;
  double sum = 0;
  for (size_t k = 0; k < candidates.size(); ++k) {
    constexpr float kNegligible = -12;
    if (scores[k] < highest + kNegligible) continue;
    const CandidateTerms& terms = candidates[k];
    const double mass = std::exp(scores[k] - highest);
    sum += mass;
    for (int i = 0; i < kCandidateTerms; ++i) {
      if (terms[i] == 0) continue;  // Most gains are 0.
      moments.mean[i] += mass * terms[i];
      for (int j = 0; j <= i; ++j) moments.second[i][j] += mass * terms[i] * terms[j];
    }
  }
  for (int i = 0; i < kCandidateTerms; ++i) {
    moments.mean[i] /= sum;
    for (int j = 0; j <= i; ++j) moments.second[i][j] /= sum;
  }
  return moments;
}

// Solves `matrix` · x = `right` for x by Cholesky decomposition. Reads only the lower triangle.
// REQUIRES: `matrix` is positive definite.
Vector Solve(Matrix matrix, Vector right) {
  for (int i = 0; i < kCandidateTerms; ++i) {
    for (int j = 0; j <= i; ++j) {
      double sum = matrix[i][j];
      for (int k = 0; k < j; ++k) sum -= matrix[i][k] * matrix[j][k];
      matrix[i][j] = i == j ? std::sqrt(std::max(sum, 1e-9)) : sum / matrix[j][j];
    }
  }
  for (int i = 0; i < kCandidateTerms; ++i) {
    for (int k = 0; k < i; ++k) right[i] -= matrix[i][k] * right[k];
    right[i] /= matrix[i][i];
  }
  for (int i = kCandidateTerms - 1; i >= 0; --i) {
    for (int k = i + 1; k < kCandidateTerms; ++k) right[i] -= matrix[k][i] * right[k];
    right[i] /= matrix[i][i];
  }
  return right;
}

float Clamped(int term, float weight) {
  if (term == kDraftTerm) {
    return std::clamp(weight, CandidateWeights::kMinDraftWeight, CandidateWeights::kMaxDraftWeight);
  }
  if (term == kOutsideTerm) {
    return std::clamp(weight, CandidateWeights::kMinOutsideWeight,
                      CandidateWeights::kMaxOutsideWeight);
  }
  const float most =
      term == kPairTerm ? CandidateWeights::kMaxPairWeight : CandidateWeights::kMaxGainWeight;
  return std::clamp(weight, 0.0f, most);
}

}  // namespace

CandidateWeights CandidateWeights::ForDrafts() {
  CandidateWeights weights;
  for (DepthCell& cell : weights.cells_) cell.weights = kDeepDraft;
  weights.cells_[0].weights = kFirstDraft;
  return weights;
}

CandidateWeights CandidateWeights::ForPriorAlone() {
  CandidateWeights weights;
  for (DepthCell& cell : weights.cells_) cell.weights = kPriorAlone;
  return weights;
}

void CandidateWeights::Update(int depth, absl::Span<const CandidateTerms> candidates,
                              size_t chosen) {
  CHECK(depth >= 1 && chosen < candidates.size());
  DepthCell& cell = cells_[Cell(depth)];
  const Moments moments = MomentsOf(candidates, cell.weights);
  Vector gradient;
  Matrix curvature{};
  for (int i = 0; i < kCandidateTerms; ++i) {
    gradient[i] = candidates[chosen][i] - moments.mean[i];
    for (int j = 0; j <= i; ++j) {
      curvature[i][j] = (1 - 1 / kMemory) * cell.curvature[i][j] + moments.second[i][j] -
                        moments.mean[i] * moments.mean[j];
    }
  }
  Matrix damped = curvature;
  for (int i = 0; i < kCandidateTerms; ++i) damped[i][i] += kInitialCurvature;
  const Vector step = Solve(damped, gradient);
  if (!std::all_of(step.begin(), step.end(), [](double s) { return std::isfinite(s); })) return;
  cell.curvature = curvature;
  for (int i = 0; i < kCandidateTerms; ++i) {
    cell.weights[i] = Clamped(i, cell.weights[i] + static_cast<float>(step[i]));
  }
}

std::vector<float> CandidateWeights::ToValues() const {
  std::vector<float> values;
  values.reserve(values_size());
  for (const DepthCell& cell : cells_) {
    for (int i = 0; i < kCandidateTerms; ++i) {
      values.push_back(cell.weights[i]);
      values.insert(values.end(), cell.curvature[i].begin(), cell.curvature[i].end());
    }
  }
  return values;
}

absl::StatusOr<CandidateWeights> CandidateWeights::FromValues(absl::Span<const float> values) {
  if (values.size() != values_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("candidate weights: ", values.size(), " values, expected ", values_size()));
  }
  if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); })) {
    return absl::InvalidArgumentError("candidate weights: a value is not finite");
  }
  CandidateWeights weights;
  auto next = values.begin();
  for (DepthCell& cell : weights.cells_) {
    for (int i = 0; i < kCandidateTerms; ++i) {
      cell.weights[i] = Clamped(i, *next++);
      for (double& entry : cell.curvature[i]) entry = *next++;
    }
  }
  return weights;
}

}  // namespace bastion
