#include "orchestrator/budget/sharpness.h"

#include <algorithm>
#include <cmath>

#include "absl/types/span.h"

namespace bastion {
namespace {

struct Moments {
  double log_sum;  // log Σ exp(β s)
  double mean;     // E[s]
  double variance;
};

// Under softmax(β s). Candidates of zero probability count for nothing.
Moments MomentsOf(absl::Span<const float> scores, double beta) {
  double sum = 0, first = 0, second = 0;
  for (const float s : scores) {
    if (std::isinf(s)) break;  // They fall.
    const double mass = std::exp(beta * (s - scores[0]));
    sum += mass;
    first += mass * s;
    second += mass * s * s;
  }
  const double mean = first / sum;
  return {beta * scores[0] + std::log(sum), mean, std::max(0.0, second / sum - mean * mean)};
}

absl::Span<float> PositionOf(Marginals& marginals, int position) {
  return absl::MakeSpan(marginals.log_probs)
      .subspan(static_cast<size_t>(position) * marginals.candidates, marginals.candidates);
}

}  // namespace

int Sharpness::Cell(int depth) { return std::min(depth, kMaxDepth) - 1; }

Marginals Sharpness::Applied(Marginals coupled) const {
  for (int position = 0; position < coupled.positions; ++position) {
    const absl::Span<float> scores = PositionOf(coupled, position);
    if (std::isinf(scores[0])) continue;
    const double beta = At(position + 1);
    const double log_sum = MomentsOf(scores, beta).log_sum;
    for (float& s : scores) s = std::min(0.0f, static_cast<float>(beta * s - log_sum));
  }
  return coupled;
}

void Sharpness::Learn(const Marginals& coupled, int position, TokenId picked) {
  const absl::Span<const float> scores(
      coupled.log_probs.data() + static_cast<size_t>(position) * coupled.candidates,
      coupled.candidates);
  if (std::isinf(scores[0])) return;
  // A token that is no candidate, or an impossible one, is at best worth the last possible one.
  float score = scores[0];
  for (int rank = 0; rank < coupled.candidates && !std::isinf(scores[rank]); ++rank) {
    score = scores[rank];
    if (coupled.token(position, rank) == picked) break;
  }
  const int cell = Cell(position + 1);
  const Moments moments = MomentsOf(scores, beta_[cell]);
  curvature_[cell] = kMemory * curvature_[cell] + moments.variance;
  const double step = (score - moments.mean) / (curvature_[cell] + kPriorCurvature);
  beta_[cell] = std::clamp(beta_[cell] + step, kLeast, kMost);
}

void Sharpness::Observe(const Marginals& coupled, const DraftTree& tree,
                        const Acceptance& acceptance) {
  int position = 0;
  for (const NodeIndex node : acceptance.path) Learn(coupled, position++, tree.token(node));
  if (position < coupled.positions) Learn(coupled, position, acceptance.next);
}

}  // namespace bastion
