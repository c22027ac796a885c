#include "orchestrator/serve/request_parser.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr int kMaxStops = 16;
constexpr int kMaxBiases = 1024;
constexpr uint32_t kMaxLogprobs = 100;
constexpr size_t kMaxSaltBytes = 256;
constexpr uint32_t kDefaultPriority = 10;
constexpr uint32_t kMaxPriority = 100;
constexpr uint32_t kMaxAnswers = 64;

// INVALID_ARGUMENT "<field>: <problem>".
absl::Status FieldError(absl::string_view field, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
}

// The text of a conversation.
absl::StatusOr<std::string> RenderChat(const hub::ChatTemplate& chat_template,
                                       const v1::ChatMessages& chat) {
  std::vector<hub::ChatMessage> messages;
  for (const v1::ChatMessage& message : chat.messages()) {
    messages.push_back({message.role(), message.content()});
  }
  std::string arguments = "{}";
  if (chat.has_template_args()) {
    arguments.clear();
    const auto converted =
        google::protobuf::util::MessageToJsonString(chat.template_args(), &arguments);
    if (!converted.ok()) {
      return FieldError("chat.template_args", "has a value that JSON cannot express; remove it");
    }
  }
  return chat_template.Render(messages, /*add_generation_prompt=*/true, arguments);
}

}  // namespace

absl::StatusOr<std::vector<TokenId>> RequestParser::ParsePrompt(
    const v1::GenerateRequest& request) const {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      return model_->tokenizer.Encode(request.text(), /*add_special=*/true);
    case v1::GenerateRequest::kTokens: {
      const auto& ids = request.tokens().ids();
      for (const TokenId id : ids) {
        if (id < 0 || id >= model_->config.dims.vocabulary) {
          return FieldError("tokens", absl::StrCat("id ", id, " is outside the vocabulary of ",
                                                   model_->config.dims.vocabulary));
        }
      }
      return std::vector<TokenId>(ids.begin(), ids.end());
    }
    case v1::GenerateRequest::kChat: {
      if (!model_->chat_template) {
        return FieldError("chat", "this model has no chat template; use text or tokens");
      }
      ASSIGN_OR_RETURN(const std::string text, RenderChat(*model_->chat_template, request.chat()));
      return model_->tokenizer.Encode(text, /*add_special=*/false);
    }
    default:
      return FieldError("prompt", "is missing; set text, tokens or chat");
  }
}

absl::StatusOr<SamplingParams> RequestParser::ParseSampling(
    const v1::SamplingParams& sampling) const {
  SamplingParams params;
  params.temperature = sampling.temperature();
  params.top_k = sampling.top_k();
  if (sampling.has_top_p()) params.top_p = sampling.top_p();
  params.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty()) params.repetition_penalty = sampling.repetition_penalty();
  params.presence_penalty = sampling.presence_penalty();
  params.frequency_penalty = sampling.frequency_penalty();
  if (sampling.logit_bias_size() > kMaxBiases) {
    return FieldError("sampling.logit_bias",
                      absl::StrCat("has ", sampling.logit_bias_size(), " tokens; at most ",
                                   kMaxBiases, " are allowed"));
  }
  params.logit_bias.assign(sampling.logit_bias().begin(), sampling.logit_bias().end());
  std::sort(params.logit_bias.begin(), params.logit_bias.end());
  const absl::Status valid = params.Validate(model_->config.dims.vocabulary);
  if (!valid.ok()) return absl::InvalidArgumentError(absl::StrCat("sampling.", valid.message()));
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
    if (id < 0 || id >= model_->config.dims.vocabulary) {
      return FieldError("stop.stop_token_ids",
                        absl::StrCat("id ", id, " is outside the vocabulary of ",
                                     model_->config.dims.vocabulary));
    }
    request.stop_tokens.insert(id);
  }
  if (!stop.ignore_eos()) {
    request.stop_tokens.insert(model_->config.special.eos.begin(),
                               model_->config.special.eos.end());
  }
  if (stop.min_tokens() > static_cast<uint32_t>(request.max_tokens)) {
    return FieldError("stop.min_tokens",
                      absl::StrCat(stop.min_tokens(), " is more than the maximum answer length of ",
                                   request.max_tokens));
  }
  request.sampling.prompt_tokens = prompt;
  request.sampling.min_tokens = static_cast<int>(stop.min_tokens());
  if (request.sampling.min_tokens > 0) {
    request.sampling.stop_tokens.assign(request.stop_tokens.begin(), request.stop_tokens.end());
  }
  return absl::OkStatus();
}

absl::Status RequestParser::SetShare(const v1::GenerateRequest& request,
                                     DecodeRequest& decode) const {
  const uint32_t priority = request.has_priority() ? request.priority() : kDefaultPriority;
  if (priority < 1 || priority > kMaxPriority) {
    return FieldError("priority",
                      absl::StrCat(priority, " is out of range; use 1 to ", kMaxPriority));
  }
  decode.weight = static_cast<double>(priority) / kDefaultPriority;
  const v1::SpeculationOptions& speculation = request.speculation();
  if (speculation.has_latency_target_ms()) {
    if (speculation.latency_target_ms() == 0) {
      return FieldError("speculation.latency_target_ms", "is 0; it must be at least 1");
    }
    decode.latency_target = absl::Milliseconds(speculation.latency_target_ms());
  }
  decode.node_cap = node_cap_;
  if (speculation.has_max_tree_nodes()) {
    decode.max_nodes =
        static_cast<int>(std::min<uint32_t>(speculation.max_tree_nodes(), kLargestPolicyNumber));
  }
  return absl::OkStatus();
}

absl::StatusOr<Policy> RequestParser::ParsePolicy(const v1::SpeculationOptions& options) const {
  if (options.mode() == v1::SpeculationOptions::MODE_OFF) return Policy::Parse("ar");
  if (options.mode() != v1::SpeculationOptions::MODE_UNSPECIFIED &&
      options.mode() != v1::SpeculationOptions::MODE_ON) {
    return FieldError("speculation.mode",
                      absl::StrCat(options.mode(), " is unknown; use MODE_ON or MODE_OFF"));
  }
  if (options.policy().empty()) return default_policy_;
  absl::StatusOr<Policy> policy = Policy::Parse(options.policy());
  if (!policy.ok()) return FieldError("speculation.policy", policy.status().message());
  return policy;
}

absl::StatusOr<PreparedRequest> RequestParser::Parse(const v1::GenerateRequest& request) const {
  if (!request.model().empty() && request.model() != model_->name) {
    return absl::NotFoundError(absl::StrCat("model \"", request.model(),
                                            "\" is not served here; use \"", model_->name, "\""));
  }
  if (request.output().logprobs() > kMaxLogprobs) {
    return FieldError(
        "output.logprobs",
        absl::StrCat(request.output().logprobs(), " is more than the maximum of ", kMaxLogprobs));
  }
  if (request.stop().stop_size() > kMaxStops) {
    return FieldError("stop.stop", absl::StrCat("has ", request.stop().stop_size(),
                                                " strings; at most ", kMaxStops, " are allowed"));
  }
  if (request.cache_salt().size() > kMaxSaltBytes) {
    return FieldError("cache_salt",
                      absl::StrCat("has ", request.cache_salt().size(), " bytes; at most ",
                                   kMaxSaltBytes, " are allowed"));
  }
  const uint32_t answers = request.has_n() ? request.n() : 1;
  if (answers < 1 || answers > kMaxAnswers) {
    return FieldError("n", absl::StrCat(answers, " is out of range; use 1 to ", kMaxAnswers));
  }
  DecodeRequest decode;
  decode.cache_salt = request.cache_salt();
  decode.keeps_trees = request.output().trees() || request.output().totals();
  ASSIGN_OR_RETURN(decode.prompt, ParsePrompt(request));
  ASSIGN_OR_RETURN(decode.sampling, ParseSampling(request.sampling()));
  RETURN_IF_ERROR(SetLimits(request.stop(), decode));
  if (request.output().has_logprobs()) {
    decode.sampling.logprobs = std::min<int>(static_cast<int>(request.output().logprobs()),
                                             model_->config.dims.vocabulary);
  }
  RETURN_IF_ERROR(SetShare(request, decode));
  ASSIGN_OR_RETURN(Policy policy, ParsePolicy(request.speculation()));
  absl::StatusOr<StopStrings> stops =
      StopStrings::Create({request.stop().stop().begin(), request.stop().stop().end()});
  if (!stops.ok()) return FieldError("stop.stop", stops.status().message());
  return PreparedRequest{request.request_id(),
                         std::move(decode),
                         std::move(policy),
                         *std::move(stops),
                         !request.stop().has_max_tokens(),
                         static_cast<int>(answers)};
}

}  // namespace bastion
