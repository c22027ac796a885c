#include "common/stages/sampling_params.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr float kHottest = 100.0f;
constexpr float kMostRepetitionPenalty = 100.0f;
constexpr float kMostPenalty = 2.0f;
constexpr float kMostBias = 100.0f;

// NaN is in no range.
absl::Status InRange(absl::string_view field, double value, double least, double most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is not between ", least, " and ", most));
}

absl::Status AboveZero(absl::string_view field, double value, double most) {
  if (value > 0 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", value, " is not above 0 and at most ", most));
}

absl::Status IsToken(absl::string_view field, TokenId token, int vocabulary) {
  if (token >= 0 && token < vocabulary) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": token ", token, " is outside the vocabulary of ", vocabulary));
}

}  // namespace

absl::Status SamplingParams::Validate(int vocabulary) const {
  constexpr double kAny = std::numeric_limits<int>::max();
  RETURN_IF_ERROR(InRange("temperature", temperature, 0, kHottest));
  RETURN_IF_ERROR(InRange("top_k", top_k, 0, kAny));
  RETURN_IF_ERROR(AboveZero("top_p", top_p, 1));
  RETURN_IF_ERROR(InRange("min_p", min_p, 0, 1));
  RETURN_IF_ERROR(AboveZero("repetition_penalty", repetition_penalty, kMostRepetitionPenalty));
  RETURN_IF_ERROR(InRange("presence_penalty", presence_penalty, -kMostPenalty, kMostPenalty));
  RETURN_IF_ERROR(InRange("frequency_penalty", frequency_penalty, -kMostPenalty, kMostPenalty));
  for (const auto& [token, bias] : logit_bias) {
    RETURN_IF_ERROR(IsToken("logit_bias", token, vocabulary));
    RETURN_IF_ERROR(InRange("logit_bias", bias, -kMostBias, kMostBias));
  }
  RETURN_IF_ERROR(InRange("prompt_tokens", prompt_tokens, 0, kAny));
  RETURN_IF_ERROR(InRange("min_tokens", min_tokens, 0, kAny));
  for (const TokenId token : stop_tokens) {
    RETURN_IF_ERROR(IsToken("stop_tokens", token, vocabulary));
  }
  return InRange("logprobs", logprobs.value_or(0), 0, vocabulary);
}

}  // namespace bastion
