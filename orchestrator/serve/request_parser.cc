#include "orchestrator/serve/request_parser.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr float kHottest = 100.0f;
constexpr int kMostStops = 16;

absl::Status Bad(absl::string_view field, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
}

// The controls that the target does not have yet: refused, unless they ask for nothing.
absl::Status RefuseUnsupported(const v1::SamplingParams& sampling) {
  constexpr char kNotYet[] = "is not supported by this version";
  if (sampling.has_top_p() && sampling.top_p() != 1) return Bad("sampling.top_p", kNotYet);
  if (sampling.has_top_k() && sampling.top_k() != 0) return Bad("sampling.top_k", kNotYet);
  if (sampling.has_min_p() && sampling.min_p() != 0) return Bad("sampling.min_p", kNotYet);
  if (sampling.has_repetition_penalty() && sampling.repetition_penalty() != 1) {
    return Bad("sampling.repetition_penalty", kNotYet);
  }
  if (sampling.has_presence_penalty() && sampling.presence_penalty() != 0) {
    return Bad("sampling.presence_penalty", kNotYet);
  }
  if (sampling.has_frequency_penalty() && sampling.frequency_penalty() != 0) {
    return Bad("sampling.frequency_penalty", kNotYet);
  }
  if (!sampling.logit_bias().empty()) return Bad("sampling.logit_bias", kNotYet);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServedModel>> ServedModel::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(hub::ModelConfig config, hub::ReadModelConfig(folder));
  if (config.kind != hub::ModelKind::kTarget) {
    return absl::InvalidArgumentError(absl::StrCat(folder, " holds a drafter, not a target"));
  }
  ASSIGN_OR_RETURN(hub::Tokenizer tokenizer, hub::Tokenizer::Load(folder));
  const std::string name = (std::filesystem::path(folder) / "").parent_path().filename().string();
  auto model = std::unique_ptr<ServedModel>(
      new ServedModel{name, std::move(config), std::move(tokenizer), std::nullopt});
  absl::StatusOr<hub::ChatTemplate> chat = hub::ChatTemplate::Load(folder);
  if (chat.ok()) {
    model->chat_template = *std::move(chat);
  } else if (!absl::IsNotFound(chat.status())) {
    return chat.status();
  }
  return model;
}

absl::StatusOr<std::vector<TokenId>> RequestParser::Prompt(
    const v1::GenerateRequest& request) const {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      return model_->tokenizer.Encode(request.text(), /*add_special=*/true);
    case v1::GenerateRequest::kTokens: {
      const auto& ids = request.tokens().ids();
      for (const TokenId id : ids) {
        if (id < 0 || id >= model_->config.dims.vocabulary) {
          return Bad("tokens", absl::StrCat("id ", id, " is outside the vocabulary of ",
                                            model_->config.dims.vocabulary));
        }
      }
      return std::vector<TokenId>(ids.begin(), ids.end());
    }
    case v1::GenerateRequest::kChat: {
      if (!model_->chat_template) return Bad("chat", "this checkpoint has no chat template");
      std::vector<hub::ChatMessage> messages;
      for (const v1::ChatMessage& message : request.chat().messages()) {
        messages.push_back({message.role(), message.content()});
      }
      ASSIGN_OR_RETURN(const std::string text,
                       model_->chat_template->Render(messages, /*add_generation_prompt=*/true));
      return model_->tokenizer.Encode(text, /*add_special=*/false);
    }
    default:
      return Bad("prompt", "is missing: give text, tokens or chat");
  }
}

absl::StatusOr<SamplingParams> RequestParser::Sampling(const v1::SamplingParams& sampling) const {
  RETURN_IF_ERROR(RefuseUnsupported(sampling));
  SamplingParams params;
  params.temperature = sampling.temperature();
  if (!(params.temperature >= 0 && params.temperature <= kHottest)) {
    return Bad("sampling.temperature",
               absl::StrCat(params.temperature, " is not between 0 and ", kHottest));
  }
  if (sampling.has_seed()) {
    params.seed = sampling.seed();
  } else {
    absl::BitGen bits;
    params.seed = absl::Uniform<uint64_t>(bits);
  }
  return params;
}

absl::Status RequestParser::SetLimits(const v1::StopConditions& stop,
                                      DecodeRequest& request) const {
  const int context = model_->config.max_positions;
  const int prompt = static_cast<int>(request.prompt.size());
  if (prompt == 0) return Bad("prompt", "is empty");
  if (prompt >= context) {
    return Bad("prompt", absl::StrCat(prompt, " tokens do not fit the context of ", context,
                                      " with room for an answer"));
  }
  if (stop.has_min_tokens() && stop.min_tokens() > 0) {
    return Bad("stop.min_tokens", "is not supported by this version");
  }
  if (stop.has_max_tokens() && stop.max_tokens() == 0) return Bad("stop.max_tokens", "is 0");
  const int room = context - prompt;
  request.max_tokens =
      stop.has_max_tokens() ? static_cast<int>(std::min<uint32_t>(stop.max_tokens(), room)) : room;
  for (const TokenId id : stop.stop_token_ids()) {
    if (id < 0 || id >= model_->config.dims.vocabulary) {
      return Bad("stop.stop_token_ids", absl::StrCat(id, " is outside the vocabulary"));
    }
    request.stop_tokens.insert(id);
  }
  if (!stop.ignore_eos()) {
    request.stop_tokens.insert(model_->config.special.eos.begin(),
                               model_->config.special.eos.end());
  }
  return absl::OkStatus();
}

absl::StatusOr<Policy> RequestParser::PolicyOf(const v1::SpeculationOptions& options) const {
  if (options.mode() == v1::SpeculationOptions::MODE_OFF) return Policy::Parse("ar");
  if (options.mode() != v1::SpeculationOptions::MODE_UNSPECIFIED &&
      options.mode() != v1::SpeculationOptions::MODE_ON) {
    return Bad("speculation.mode", absl::StrCat(options.mode(), " is not a mode"));
  }
  if (options.policy().empty()) return default_policy_;
  absl::StatusOr<Policy> policy = Policy::Parse(options.policy());
  if (!policy.ok()) return Bad("speculation.policy", policy.status().message());
  return policy;
}

absl::StatusOr<PreparedRequest> RequestParser::Parse(const v1::GenerateRequest& request) const {
  if (!request.model().empty() && request.model() != model_->name) {
    return absl::NotFoundError(absl::StrCat("model \"", request.model(),
                                            "\" is not served here; \"", model_->name, "\" is"));
  }
  if (request.output().has_logprobs()) {
    return Bad("output.logprobs", "is not supported by this version");
  }
  if (request.stop().stop_size() > kMostStops) {
    return Bad("stop.stop", absl::StrCat("more than ", kMostStops, " strings"));
  }
  DecodeRequest decode;
  ASSIGN_OR_RETURN(decode.prompt, Prompt(request));
  ASSIGN_OR_RETURN(decode.sampling, Sampling(request.sampling()));
  RETURN_IF_ERROR(SetLimits(request.stop(), decode));
  if (request.speculation().has_max_tree_nodes()) {
    decode.max_nodes = static_cast<int>(
        std::min<uint32_t>(request.speculation().max_tree_nodes(), Policy::kLargestNumber));
  }
  ASSIGN_OR_RETURN(Policy policy, PolicyOf(request.speculation()));
  absl::StatusOr<StopStrings> stops =
      StopStrings::Create({request.stop().stop().begin(), request.stop().stop().end()});
  if (!stops.ok()) return Bad("stop.stop", stops.status().message());
  return PreparedRequest{request.request_id(), std::move(decode), std::move(policy),
                         *std::move(stops)};
}

}  // namespace bastion
