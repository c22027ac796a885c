#include "common/stages/sampling_params.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr float kMaxTemperature = 100.0f;
// Below it, logits divided by the temperature may overflow.
constexpr float kMinTemperature = 1e-5f;
constexpr float kMaxRepetitionPenalty = 100.0f;
constexpr float kMaxPenalty = 2.0f;
constexpr float kMaxBias = 100.0f;

// NaN fails this check and the next one, because its comparisons are false.
absl::Status CheckRange(absl::string_view field, double value, double min, double max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be in [", min, ", ", max, "]"));
}

absl::Status CheckPositive(absl::string_view field, double value, double max) {
  if (value > 0 && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be in (0, ", max, "]"));
}

absl::Status CheckTemperature(double temperature) {
  if (temperature >= kMinTemperature && temperature <= kMaxTemperature) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("temperature is ", temperature,
                                                 "; it must be 0 or in [", kMinTemperature, ", ",
                                                 kMaxTemperature, "]"));
}

absl::Status CheckToken(absl::string_view field, TokenId token, int vocabulary) {
  if (token >= 0 && token < vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": token ", token, " is outside the vocabulary of ", vocabulary));
}

}  // namespace

absl::Status SamplingParams::Validate(int vocabulary) const {
  constexpr double kMaxInt = std::numeric_limits<int>::max();
  if (temperature != 0) {
    RETURN_IF_ERROR(CheckTemperature(temperature));
  }
  RETURN_IF_ERROR(CheckRange("top_k", top_k, 0, kMaxInt));
  RETURN_IF_ERROR(CheckPositive("top_p", top_p, 1));
  RETURN_IF_ERROR(CheckRange("min_p", min_p, 0, 1));
  RETURN_IF_ERROR(CheckPositive("repetition_penalty", repetition_penalty, kMaxRepetitionPenalty));
  RETURN_IF_ERROR(CheckRange("presence_penalty", presence_penalty, -kMaxPenalty, kMaxPenalty));
  RETURN_IF_ERROR(CheckRange("frequency_penalty", frequency_penalty, -kMaxPenalty, kMaxPenalty));
  for (const auto& [token, bias] : logit_bias) {
    RETURN_IF_ERROR(CheckToken("logit_bias", token, vocabulary));
    RETURN_IF_ERROR(CheckRange("logit_bias", bias, -kMaxBias, kMaxBias));
  }
  RETURN_IF_ERROR(CheckRange("prompt_tokens", prompt_tokens, 0, kMaxInt));
  RETURN_IF_ERROR(CheckRange("min_tokens", min_tokens, 0, kMaxInt));
  for (const TokenId token : stop_tokens) {
    RETURN_IF_ERROR(CheckToken("stop_tokens", token, vocabulary));
  }
  return CheckRange("logprobs", logprobs.value_or(0), 0, vocabulary);
}

}  // namespace bastion
