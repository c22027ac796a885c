#include "client/flags/sampling.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace bastion {
namespace {

// False for an unknown name or an invalid value.
bool ParseSetting(absl::string_view name, absl::string_view value, SamplingParams& sampling) {
  if (name == "top_k") return absl::SimpleAtoi(value, &sampling.top_k);
  if (name == "top_p") return absl::SimpleAtof(value, &sampling.top_p);
  if (name == "min_p") return absl::SimpleAtof(value, &sampling.min_p);
  if (name == "repetition_penalty") return absl::SimpleAtof(value, &sampling.repetition_penalty);
  if (name == "presence_penalty") return absl::SimpleAtof(value, &sampling.presence_penalty);
  if (name == "frequency_penalty") return absl::SimpleAtof(value, &sampling.frequency_penalty);
  return false;
}

}  // namespace

absl::StatusOr<SamplingParams> ParseSampling(absl::string_view text) {
  SamplingParams sampling;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> setting =
        absl::StrSplit(absl::StripAsciiWhitespace(part), absl::MaxSplits('=', 1));
    if (!ParseSetting(setting.first, setting.second, sampling)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sampling: \"", part,
          "\" is not name=number; the names are top_k, top_p, min_p, repetition_penalty, "
          "presence_penalty and frequency_penalty (temperature and seed have flags of their own)"));
    }
  }
  return sampling;
}

void Encode(const SamplingParams& sampling, v1::SamplingParams& out) {
  out.set_temperature(sampling.temperature);
  out.set_top_k(sampling.top_k);
  out.set_top_p(sampling.top_p);
  out.set_min_p(sampling.min_p);
  out.set_repetition_penalty(sampling.repetition_penalty);
  out.set_presence_penalty(sampling.presence_penalty);
  out.set_frequency_penalty(sampling.frequency_penalty);
  for (const auto& [token, bias] : sampling.logit_bias) (*out.mutable_logit_bias())[token] = bias;
}

}  // namespace bastion
