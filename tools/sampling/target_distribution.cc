#include "tools/sampling/target_distribution.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

absl::StatusOr<std::vector<double>> ReadLogProbs(Verifier& verifier, SequenceId id,
                                                 absl::Span<const TokenId> prefix, int vocabulary) {
  const auto cached = static_cast<Position>(prefix.size()) - 1;
  RETURN_IF_ERROR(verifier.Prefill({id, 0, {prefix.begin(), prefix.end() - 1}}).status());
  ASSIGN_OR_RETURN(const VerifyResult result,
                   verifier.Verify({VerifyItem{id, cached, DraftTree(prefix.back())}}, {}));
  RETURN_IF_ERROR(result.outcomes.at(0).status);
  return AllLogProbs(result.outcomes[0].acceptance, vocabulary);
}

// A distribution over the tokens, in order of decreasing probability, that can be truncated.
class TruncatedDistribution {
 public:
  explicit TruncatedDistribution(std::vector<double> mass)
      : mass_(std::move(mass)), order_(mass_.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [this](int a, int b) { return mass_[a] > mass_[b]; });
  }

  void KeepTopK(int top_k) {
    if (top_k >= static_cast<int>(order_.size())) return;
    const double last = mass_[order_[top_k - 1]];
    // Keep all tokens that tie with the last of the top k.
    while (mass_[order_.back()] < last) order_.pop_back();
  }

  void KeepTopP(double top_p) {
    const double needed = top_p * Total();
    double sum = 0;
    size_t kept = 0;
    while (kept < order_.size() && (kept == 0 || sum < needed)) {
      sum += mass_[order_[kept++]];
    }
    order_.resize(kept);
  }

  void KeepMinP(double min_p) {
    const double threshold = min_p * mass_[order_.front()];
    while (mass_[order_.back()] < threshold) order_.pop_back();
  }

  [[nodiscard]] std::vector<double> Probabilities() const {
    std::vector<double> probabilities(mass_.size(), 0);
    const double total = Total();
    for (const int token : order_) probabilities[token] = mass_[token] / total;
    return probabilities;
  }

 private:
  [[nodiscard]] double Total() const {
    double total = 0;
    for (const int token : order_) total += mass_[token];
    return total;
  }

  std::vector<double> mass_;
  std::vector<int> order_;
};

}  // namespace

absl::StatusOr<std::vector<double>> AllLogProbs(const Acceptance& acceptance, int vocabulary) {
  std::vector<double> log_probs(vocabulary, std::numeric_limits<double>::quiet_NaN());
  if (!acceptance.logprobs.empty()) {
    for (const auto& [token, value] : acceptance.logprobs[0].top) {
      if (token >= 0 && token < vocabulary) log_probs[token] = value;
    }
  }
  const bool all = std::none_of(log_probs.begin(), log_probs.end(),
                                [](double value) { return std::isnan(value); });
  if (all) return log_probs;
  return absl::DataLossError(absl::StrCat(
      "the verifier did not report the log-probabilities of all ", vocabulary, " tokens"));
}

absl::StatusOr<std::vector<double>> NextLogProbs(Verifier& verifier, SequenceId scratch,
                                                 absl::Span<const TokenId> prefix) {
  ASSIGN_OR_RETURN(const TargetInfo target, verifier.Info());
  SamplingParams sampling;
  sampling.prompt_tokens = static_cast<int>(prefix.size());
  sampling.logprobs = target.dims.vocabulary;
  RETURN_IF_ERROR(verifier.Open(scratch, sampling));
  absl::StatusOr<std::vector<double>> log_probs =
      ReadLogProbs(verifier, scratch, prefix, target.dims.vocabulary);
  verifier.Close(scratch);
  return log_probs;
}

std::vector<double> ChoiceProbabilities(absl::Span<const double> log_probs,
                                        const ChoiceParams& choice) {
  const auto largest = std::max_element(log_probs.begin(), log_probs.end());
  std::vector<double> mass(log_probs.size(), 0);
  if (choice.temperature == 0) {
    mass[largest - log_probs.begin()] = 1;
    return mass;
  }
  std::transform(log_probs.begin(), log_probs.end(), mass.begin(),
                 [&](double value) { return std::exp((value - *largest) / choice.temperature); });
  TruncatedDistribution distribution(std::move(mass));
  if (choice.top_k > 0) distribution.KeepTopK(choice.top_k);
  if (choice.top_p < 1) distribution.KeepTopP(choice.top_p);
  if (choice.min_p > 0) distribution.KeepMinP(choice.min_p);
  return distribution.Probabilities();
}

}  // namespace bastion
