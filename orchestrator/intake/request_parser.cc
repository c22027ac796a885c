#include "orchestrator/intake/request_parser.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "orchestrator/intake/chat_prompt.h"
#include "orchestrator/intake/request_id.h"
#include "orchestrator/intake/stop_conditions.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

// The bounds that generation.proto states.
constexpr size_t kMaxModelBytes = 256;
constexpr size_t kMaxSaltBytes = 256;
constexpr size_t kMaxPolicyBytes = 256;
constexpr int kMaxMessages = 1024;
constexpr size_t kMaxRoleBytes = 64;
constexpr size_t kMaxTemplateArgsBytes = 16 << 10;
constexpr int kMaxBiases = 1024;
constexpr uint32_t kMaxLogprobs = 100;
constexpr size_t kMaxConstraintBytes = 64 << 10;
constexpr uint32_t kDefaultPriority = 10;
constexpr uint32_t kMaxPriority = 100;

// The limits of DefaultPromptBytes. Tokenizing needs at most 400 bytes of memory per byte of text.
constexpr size_t kLeastPromptBytes = 64 << 10;
constexpr size_t kMostPromptBytes = 1 << 20;
// A tokenizer may drop spaces around tokens.
constexpr size_t kDroppedBytes = 4;
// Bytes of a token id on the wire: at most four for the id, and one if the field is not packed.
constexpr size_t kTokenIdBytes = 5;
// Room for all other fields of a request.
constexpr size_t kOtherBytes = 96 << 10;
// Below these values, the most likely token is chosen anyway.
constexpr float kMinTemperature = 1e-5f;
constexpr float kMinTopP = std::numeric_limits<float>::min();
// Strings of clients are cut to this length in messages.
constexpr size_t kMaxQuotedBytes = 64;

// The sampling parameter that `complaint` names first.
absl::Status SamplingError(const absl::Status& complaint) {
  const absl::string_view message = complaint.message();
  const size_t end = std::min(message.find_first_of(" :"), message.size());
  return FieldError(absl::StrCat("sampling.", message.substr(0, end)),
                    absl::StripLeadingAsciiWhitespace(absl::StripPrefix(message.substr(end), ":")));
}

// The base name of a policy: "fixed" of "fixed:16+prior".
absl::string_view BaseName(absl::string_view policy) {
  return policy.substr(0, policy.find_first_of(":+"));
}

}  // namespace

size_t DefaultPromptBytes(const ServedModel& model) {
  const size_t longest = model.tokenizer.longest_token() + kDroppedBytes;
  return std::clamp(model.config.max_positions * longest, kLeastPromptBytes, kMostPromptBytes);
}

RequestParser::RequestParser(const ServedModel* model, Policy default_policy,
                             const ParserOptions& options)
    : model_(model),
      default_policy_(std::move(default_policy)),
      options_([&] {
        ParserOptions all = options;
        if (all.max_prompt_bytes == 0) all.max_prompt_bytes = DefaultPromptBytes(*model);
        return all;
      }()),
      constraints_(std::make_unique<ConstraintCompiler>(model)) {}

size_t RequestParser::max_request_bytes() const {
  const size_t tokens = model_->config.max_positions * kTokenIdBytes;
  return std::max(options_.max_prompt_bytes, tokens) + kOtherBytes;
}

absl::Status RequestParser::CheckTextBytes(absl::string_view field, size_t bytes) const {
  return CheckSize(field, bytes, options_.max_prompt_bytes, "bytes");
}

absl::Status RequestParser::CheckPromptBounds(const v1::GenerateRequest& request) const {
  if (request.prompt_case() == v1::GenerateRequest::kText) {
    return CheckTextBytes("text", request.text().size());
  }
  if (request.prompt_case() == v1::GenerateRequest::kTokens) {
    return CheckSize("tokens", request.tokens().ids_size(), model_->config.max_positions, "tokens");
  }
  const v1::ChatMessages& chat = request.chat();
  RETURN_IF_ERROR(CheckSize("chat.messages", chat.messages_size(), kMaxMessages, "messages"));
  size_t bytes = 0;
  for (int i = 0; i < chat.messages_size(); ++i) {
    RETURN_IF_ERROR(CheckSize(absl::StrCat("chat.messages[", i, "].role"),
                              chat.messages(i).role().size(), kMaxRoleBytes, "bytes"));
    bytes += chat.messages(i).role().size() + chat.messages(i).content().size() +
             chat.messages(i).fields_json().size();
  }
  RETURN_IF_ERROR(CheckTextBytes("chat.messages", bytes));
  RETURN_IF_ERROR(CheckTextBytes("chat.tools_json", bytes + chat.tools_json().size()));
  RETURN_IF_ERROR(CheckSize("chat.template_args_json", chat.template_args_json().size(),
                            kMaxTemplateArgsBytes, "bytes"));
  return CheckSize("chat.template_args", chat.template_args().ByteSizeLong(), kMaxTemplateArgsBytes,
                   "bytes");
}

absl::Status RequestParser::CheckBounds(const v1::GenerateRequest& request) const {
  RETURN_IF_ERROR(CheckRequestId(request.request_id()));
  RETURN_IF_ERROR(CheckSize("model", request.model().size(), kMaxModelBytes, "bytes"));
  if (!request.model().empty() && request.model() != model_->name) {
    return ForClient(absl::NotFoundError(
        absl::StrCat("model \"", ShortenedToBytes(request.model(), kMaxQuotedBytes),
                     "\" is not served here; use \"", model_->name, "\"")));
  }
  RETURN_IF_ERROR(CheckPromptBounds(request));
  RETURN_IF_ERROR(CheckStopBounds(request.stop()));
  RETURN_IF_ERROR(
      CheckSize("sampling.logit_bias", request.sampling().logit_bias_size(), kMaxBiases, "tokens"));
  if (request.output().logprobs() > kMaxLogprobs) {
    return FieldError(
        "output.logprobs",
        absl::StrCat(request.output().logprobs(), " is more than the maximum of ", kMaxLogprobs));
  }
  RETURN_IF_ERROR(CheckSize("cache_salt", request.cache_salt().size(), kMaxSaltBytes, "bytes"));
  RETURN_IF_ERROR(
      CheckSize("constraint", request.constraint().ByteSizeLong(), kMaxConstraintBytes, "bytes"));
  if (request.has_n() && (request.n() < 1 || request.n() > kMaxAnswers)) {
    return FieldError("n", absl::StrCat(request.n(), " is out of range; use 1 to ", kMaxAnswers));
  }
  return ParsePolicy(request.speculation()).status();
}

absl::Status RequestParser::CheckSpecialTokens(absl::string_view field,
                                               const std::string& text) const {
  const absl::StatusOr<std::string> found = model_->tokenizer.FindSpecial(text);
  if (absl::IsInvalidArgument(found.status())) return FieldError(field, found.status().message());
  RETURN_IF_ERROR(found.status());
  if (found->empty()) return absl::OkStatus();
  return FieldError(field, absl::StrCat("contains the special token \"", *found,
                                        "\", which this server refuses in texts; remove it"));
}

absl::Status RequestParser::CheckSpecialTokens(const v1::ChatMessages& chat) const {
  for (const auto& [field, text] : TextsOfChat(chat)) {
    RETURN_IF_ERROR(CheckSpecialTokens(field, text));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> RequestParser::Encode(absl::string_view field,
                                                           const std::string& text,
                                                           bool add_special) const {
  absl::StatusOr<std::vector<TokenId>> ids = model_->tokenizer.Encode(text, add_special);
  if (!ids.ok()) return PromptError(field, ids.status());
  const auto is_outside = [&](TokenId id) { return id >= model_->config.dims.vocabulary; };
  const auto outside = std::find_if(ids->begin(), ids->end(), is_outside);
  if (outside == ids->end()) return ids;
  return FieldError(
      field, absl::StrCat("has the token ", *outside, ", which is outside the vocabulary of ",
                          model_->config.dims.vocabulary));
}

absl::StatusOr<std::vector<TokenId>> RequestParser::ParsePrompt(
    const v1::GenerateRequest& request) const {
  switch (request.prompt_case()) {
    case v1::GenerateRequest::kText:
      if (options_.refuse_special_tokens) {
        RETURN_IF_ERROR(CheckSpecialTokens("text", request.text()));
      }
      return Encode("text", request.text(), /*add_special=*/true);
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
        return FieldError("chat", model_->chat_problem.empty()
                                      ? "this model has no chat template; use text or tokens"
                                      : absl::StrCat("this model's chat template cannot be used: ",
                                                     model_->chat_problem));
      }
      if (options_.refuse_special_tokens) {
        RETURN_IF_ERROR(CheckSpecialTokens(request.chat()));
      }
      ASSIGN_OR_RETURN(const std::string text, RenderChat(*model_->chat_template, request.chat()));
      if (text.size() > options_.max_prompt_bytes) {
        return FieldError(
            "chat", absl::StrCat("has ", text.size(), " bytes after the chat template; at most ",
                                 options_.max_prompt_bytes, " are allowed"));
      }
      return Encode("chat", text, /*add_special=*/false);
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
  if (params.temperature > 0) params.temperature = std::max(params.temperature, kMinTemperature);
  // 0 is in OpenAI's range: only the most likely token remains.
  if (sampling.has_top_p()) params.top_p = sampling.top_p() == 0 ? kMinTopP : sampling.top_p();
  params.min_p = sampling.min_p();
  if (sampling.has_repetition_penalty()) params.repetition_penalty = sampling.repetition_penalty();
  params.presence_penalty = sampling.presence_penalty();
  params.frequency_penalty = sampling.frequency_penalty();
  params.logit_bias.assign(sampling.logit_bias().begin(), sampling.logit_bias().end());
  std::sort(params.logit_bias.begin(), params.logit_bias.end());
  const absl::Status valid = params.Validate(model_->config.dims.vocabulary);
  if (!valid.ok()) return SamplingError(valid);
  if (sampling.has_seed()) {
    params.seed = sampling.seed();
  } else {
    absl::BitGen bits;
    params.seed = absl::Uniform<uint64_t>(bits);
  }
  return params;
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
  decode.node_cap = options_.node_cap;
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
  const std::string& name = options.policy();
  if (name.empty() || name == default_policy_.text()) return default_policy_;
  RETURN_IF_ERROR(CheckSize("speculation.policy", name.size(), kMaxPolicyBytes, "bytes"));
  absl::StatusOr<Policy> policy = Policy::Parse(name);
  if (!policy.ok()) return FieldError("speculation.policy", policy.status().message());
  const std::vector<std::string>& allowed = options_.allowed_policies;
  if (!allowed.empty() &&
      std::find(allowed.begin(), allowed.end(), BaseName(name)) == allowed.end()) {
    return FieldError("speculation.policy",
                      absl::StrCat("\"", BaseName(name), "\" is not allowed on this server; use ",
                                   absl::StrJoin(allowed, ", ")));
  }
  return policy;
}

absl::StatusOr<PreparedRequest> RequestParser::ParseText(const v1::GenerateRequest& request,
                                                         absl::string_view caller,
                                                         absl::string_view client) const {
  RETURN_IF_ERROR(CheckBounds(request));
  DecodeRequest decode;
  decode.cache_salt = request.cache_salt();
  // The length keeps names and salts apart.
  if (!caller.empty()) {
    decode.cache_salt = absl::StrCat(caller.size(), ":", caller, request.cache_salt());
  }
  if (request.output().trees() || request.output().totals()) decode.kept_trees = KeptTrees::kLast;
  ASSIGN_OR_RETURN(decode.sampling, ParseSampling(request.sampling()));
  if (request.output().has_logprobs()) {
    decode.sampling.logprobs = std::min<int>(static_cast<int>(request.output().logprobs()),
                                             model_->config.dims.vocabulary);
  }
  RETURN_IF_ERROR(SetShare(request, decode));
  ASSIGN_OR_RETURN(Policy policy, ParsePolicy(request.speculation()));
  absl::StatusOr<StopStrings> stops =
      StopStrings::Create({request.stop().stop().begin(), request.stop().stop().end()});
  if (!stops.ok()) return FieldError("stop.stop", stops.status().message());
  ASSIGN_OR_RETURN(SpecialStops special_stops, FindSpecialStops(request.stop(), model_->tokenizer));
  for (const auto& [token, text] : special_stops) decode.stop_tokens.insert(token);
  ASSIGN_OR_RETURN(decode.prompt, ParsePrompt(request));
  RETURN_IF_ERROR(SetLimits(request.stop(), model_->config, decode));
  const ReasoningStart reasoning = request.has_chat()
                                       ? ReasoningStartOf(*model_, decode.prompt.tokens())
                                       : ReasoningStart::kNone;
  return PreparedRequest{request.request_id(),
                         std::move(decode),
                         std::move(policy),
                         *std::move(stops),
                         std::move(special_stops),
                         !request.stop().has_max_tokens(),
                         static_cast<int>(AnswersPerPrompt(request)),
                         reasoning,
                         std::string(client)};
}

}  // namespace bastion
