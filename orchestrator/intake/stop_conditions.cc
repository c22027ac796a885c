#include "orchestrator/intake/stop_conditions.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

// The bounds that generation.proto states.
constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 1024;
constexpr int kMaxStopTokens = 1024;

}  // namespace

absl::Status CheckSize(absl::string_view field, size_t size, size_t max, absl::string_view unit) {
  if (size <= max) return absl::OkStatus();
  return FieldError(field,
                    absl::StrCat("has ", size, " ", unit, "; at most ", max, " are allowed"));
}

absl::Status CheckStopBounds(const v1::StopConditions& stop) {
  RETURN_IF_ERROR(CheckSize("stop.stop", stop.stop_size(), kMaxStops, "strings"));
  for (int i = 0; i < stop.stop_size(); ++i) {
    RETURN_IF_ERROR(
        CheckSize(absl::StrCat("stop.stop[", i, "]"), stop.stop(i).size(), kMaxStopBytes, "bytes"));
  }
  return CheckSize("stop.stop_token_ids", stop.stop_token_ids_size(), kMaxStopTokens, "tokens");
}

absl::StatusOr<SpecialStops> FindSpecialStops(const v1::StopConditions& stop,
                                              const hub::Tokenizer& tokenizer) {
  SpecialStops found;
  for (int i = 0; i < stop.stop_size(); ++i) {
    const std::string& text = stop.stop(i);
    const std::string field = absl::StrCat("stop.stop[", i, "]");
    const absl::StatusOr<std::string> special = tokenizer.FindSpecial(text);
    if (!special.ok()) return FieldError(field, special.status().message());
    if (special->empty()) continue;
    const std::optional<TokenId> id = tokenizer.Find(text);
    if (!id || !tokenizer.TokenBytes(*id).empty()) {
      return FieldError(field,
                        absl::StrCat("contains the special token \"", *special,
                                     "\", which is not part of the text of an answer; use it "
                                     "alone, or its id in stop_token_ids"));
    }
    found.emplace_back(*id, text);
  }
  return found;
}

absl::Status SetLimits(const v1::StopConditions& stop, const hub::ModelConfig& config,
                       DecodeRequest& request) {
  const int context = config.max_positions;
  const int prompt = static_cast<int>(request.prompt.size());
  if (prompt == 0) return FieldError("prompt", "is empty");
  if (prompt >= context) {
    return FieldError("prompt", absl::StrCat("has ", prompt,
                                             " tokens, which leaves no room for an answer in "
                                             "the context of ",
                                             context));
  }
  if (stop.has_max_tokens() && stop.max_tokens() == 0) {
    return FieldError("stop.max_tokens", "is 0; it must be at least 1");
  }
  const int room = context - prompt;
  request.max_tokens =
      stop.has_max_tokens() ? static_cast<int>(std::min<uint32_t>(stop.max_tokens(), room)) : room;
  for (const TokenId id : stop.stop_token_ids()) {
    if (id < 0 || id >= config.dims.vocabulary) {
      return FieldError(
          "stop.stop_token_ids",
          absl::StrCat("id ", id, " is outside the vocabulary of ", config.dims.vocabulary));
    }
    request.stop_tokens.insert(id);
  }
  if (!stop.ignore_eos()) {
    request.stop_tokens.insert(config.special.eos.begin(), config.special.eos.end());
  }
  if (stop.min_tokens() > static_cast<uint32_t>(request.max_tokens)) {
    return FieldError("stop.min_tokens",
                      absl::StrCat(stop.min_tokens(), " is more than the maximum answer length of ",
                                   request.max_tokens));
  }
  request.sampling.prompt_tokens = prompt;
  request.sampling.min_tokens = static_cast<int>(stop.min_tokens());
  if (request.sampling.min_tokens > 0) {
    if (static_cast<int>(request.stop_tokens.size()) >= config.dims.vocabulary) {
      return FieldError("stop.stop_token_ids",
                        "has every token, so that no token can come before stop.min_tokens");
    }
    request.sampling.stop_tokens.assign(request.stop_tokens.begin(), request.stop_tokens.end());
  }
  return absl::OkStatus();
}

}  // namespace bastion
