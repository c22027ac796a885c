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

double PredictSeconds(const LatencyEstimator& estimator, int rows, int context) {
  return absl::ToDoubleSeconds(estimator.Predict(rows, context));
}

// The attention of `rows` rows of `sequences` sequences over `context` tokens each.
double AttentionSeconds(const LatencyEstimator& estimator, int sequences, int rows, int context) {
  const auto extra = [&](int count) {
    return PredictSeconds(estimator, count, context) - PredictSeconds(estimator, count, 0);
  };
  const double root = std::max(0.0, extra(1));
  const double row = std::max(0.0, extra(1 + kAttentionRows) - root) / kAttentionRows;
  return sequences * root + (rows - sequences) * row;
}

// The logarithm of observed / predicted. Limited, because a stall must not change much. 0 if a
// duration is not positive.
double LogError(absl::Duration observed, absl::Duration predicted) {
  if (observed <= absl::ZeroDuration() || predicted <= absl::ZeroDuration()) return 0;
  return std::log(std::clamp(absl::FDivDuration(observed, predicted), 0.25, 4.0));
}

}  // namespace

double VerifyCost::SequenceSeconds(const LatencyEstimator& estimator,
                                   const VerifySize& size) const {
  return sequence_factor_ * ((size.sequences - 1) * sequence_seconds_ +
                             AttentionSeconds(estimator, size.sequences, size.rows, size.context));
}

double VerifyCost::DecodeSeconds(const LatencyEstimator& estimator, const VerifySize& size) const {
  if (size.sequences == 0) return 0;
  return PredictSeconds(estimator, size.rows, 0) + SequenceSeconds(estimator, size);
}

double VerifyCost::PromptAttention(const LatencyEstimator& estimator,
                                   const PromptSize& prompts) const {
  return prompts.chunks * sequence_seconds_ +
         AttentionSeconds(estimator, prompts.chunks, prompts.rows, prompts.context);
}

double VerifyCost::PromptSeconds(const LatencyEstimator& estimator, const VerifySize& size) const {
  const int decoding = size.rows - size.prompts.rows;
  const double own = decoding > 0 ? PredictSeconds(estimator, decoding, 0) : 0;
  return PredictSeconds(estimator, size.rows, 0) - own + PromptAttention(estimator, size.prompts);
}

absl::Duration VerifyCost::Predict(const VerifySize& size, bool drafted) const {
  const LatencyEstimator& estimator = Estimator(drafted);
  if (size.alone()) return estimator.Predict(size.rows, size.context);
  double seconds = DecodeSeconds(estimator, size.decoding());
  if (size.prompts.rows > 0) seconds += prompt_factor_ * PromptSeconds(estimator, size);
  return absl::Seconds(seconds);
}

std::vector<double> VerifyCost::Curve(const VerifySize& certain, int max_nodes,
                                      bool drafted) const {
  const LatencyEstimator& estimator = Estimator(drafted);
  std::vector<double> products(static_cast<size_t>(certain.rows) + max_nodes);
  estimator.Curve(certain.alone() ? certain.context : 0, absl::MakeSpan(products));
  std::vector<double> curve(products.begin() + (certain.rows - 1), products.end());
  if (certain.alone()) return curve;
  VerifySize decoding = certain.decoding();
  if (certain.prompts.rows > 0) {
    const double attention = PromptAttention(estimator, certain.prompts);
    for (int n = 0; n <= max_nodes; ++n) {
      const int rows = decoding.rows + n;
      const double own = rows > 0 ? products[rows - 1] : 0;
      curve[n] = own + prompt_factor_ * (curve[n] - own + attention);
    }
  }
  if (decoding.sequences == 0) return curve;
  double seconds = SequenceSeconds(estimator, decoding);
  decoding.rows += kAttentionRows;
  const double row = (SequenceSeconds(estimator, decoding) - seconds) / kAttentionRows;
  for (double& cost : curve) {
    cost += seconds;
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
    const absl::Duration decoding = absl::Seconds(DecodeSeconds(estimator, size.decoding()));
    const absl::Duration prompts = absl::Seconds(prompt_factor_ * PromptSeconds(estimator, size));
    prompt_factor_ *=
        std::exp(kAlpha * LogError(std::max(observed - decoding, 0.25 * prompts), prompts));
    prompt_factor_ = std::clamp(prompt_factor_, 1.0 / 16, 4.0);
    return;
  }
  const double products = PredictSeconds(estimator, size.rows, 0);
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
