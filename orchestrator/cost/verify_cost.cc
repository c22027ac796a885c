#include "orchestrator/cost/verify_cost.h"

#include <algorithm>
#include <cmath>

#include "absl/types/span.h"

namespace bastion {
namespace {

// Rows beyond the root at which the attention cost of a row is read off.
constexpr int kAttentionRows = 8;

// How much less certain the time of sequences is than that of the matrix products.
constexpr double kUncertainty = 3;

constexpr double kAlpha = 0.1;  // Step size of the corrections.

// The logarithm of observed / predicted. Limited, because a stall must not change much. 0 if a
// duration is not positive.
double LogError(absl::Duration observed, absl::Duration predicted) {
  if (observed <= absl::ZeroDuration() || predicted <= absl::ZeroDuration()) return 0;
  return std::log(std::clamp(absl::FDivDuration(observed, predicted), 0.25, 4.0));
}

}  // namespace

double VerifyCost::SequenceSeconds(const LatencyEstimator& estimator,
                                   const VerifySize& size) const {
  const auto attention = [&estimator](int sequences, int rows, int context) {
    const auto extra = [&](int count) {
      return absl::ToDoubleSeconds(estimator.Predict(count, context) - estimator.Predict(count, 0));
    };
    const double root = std::max(0.0, extra(1));
    const double row = std::max(0.0, extra(1 + kAttentionRows) - root) / kAttentionRows;
    return sequences * root + (rows - sequences) * row;
  };
  const PromptSize& prompts = size.prompts;
  double seconds = (size.sequences + prompts.chunks - 1) * sequence_seconds_ +
                   attention(size.sequences, size.rows - prompts.rows, size.context);
  if (prompts.rows > 0) seconds += attention(prompts.chunks, prompts.rows, prompts.context);
  return sequence_factor_ * seconds;
}

absl::Duration VerifyCost::Predict(const VerifySize& size, bool drafted) const {
  const LatencyEstimator& estimator = Estimator(drafted);
  if (size.alone()) return estimator.Predict(size.rows, size.context);
  return Factor(size) *
         (estimator.Predict(size.rows, 0) + absl::Seconds(SequenceSeconds(estimator, size)));
}

std::vector<double> VerifyCost::Curve(const VerifySize& certain, int max_nodes,
                                      bool drafted) const {
  const LatencyEstimator& estimator = Estimator(drafted);
  std::vector<double> curve(static_cast<size_t>(certain.rows) + max_nodes);
  estimator.Curve(certain.alone() ? certain.context : 0, absl::MakeSpan(curve));
  curve.erase(curve.begin(), curve.begin() + (certain.rows - 1));
  if (certain.alone()) return curve;
  VerifySize wider = certain;
  wider.rows += kAttentionRows;
  double seconds = SequenceSeconds(estimator, certain);
  const double row = (SequenceSeconds(estimator, wider) - seconds) / kAttentionRows;
  for (double& cost : curve) {
    cost = Factor(certain) * (cost + seconds);
    seconds += row;
  }
  return curve;
}

void VerifyCost::Observe(const VerifySize& size, bool drafted, absl::Duration observed) {
  LatencyEstimator& estimator = Estimator(drafted);
  if (size.alone()) {
    estimator.Observe(size.rows, size.context, observed);
    return;
  }
  if (size.prompts.rows > 0) {
    prompt_factor_ *= std::exp(kAlpha * LogError(observed, Predict(size, drafted)));
    prompt_factor_ = std::clamp(prompt_factor_, 1.0 / 16, 4.0);
    return;
  }
  const double products = absl::ToDoubleSeconds(estimator.Predict(size.rows, 0));
  const double sequences = SequenceSeconds(estimator, size);
  const double predicted = products + sequences;
  if (observed <= absl::ZeroDuration() || predicted <= 0) return;
  const double error = LogError(observed, absl::Seconds(predicted));
  // The least change of both parts, in units of their uncertainty, that removes the error.
  const double products_share = products / predicted;
  const double sequences_share = kUncertainty * kUncertainty * sequences / predicted;
  const double scale =
      error / (products_share * products_share + sequences_share * sequences / predicted);
  estimator.Observe(size.rows, /*context=*/0,
                    absl::Seconds(products * std::exp(scale * products_share)));
  sequence_factor_ =
      std::clamp(sequence_factor_ * std::exp(kAlpha * scale * sequences_share), 1.0 / 64, 4.0);
}

}  // namespace bastion
