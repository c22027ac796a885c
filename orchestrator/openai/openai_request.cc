#include "orchestrator/openai/openai_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "orchestrator/intake/request_parser.h"
#include "orchestrator/openai/json_argument.h"
#include "orchestrator/openai/openai_constraint.h"
#include "orchestrator/openai/openai_prompt.h"
#include "orchestrator/openai/openai_tools.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

using json = nlohmann::ordered_json;

constexpr int64_t kMaxUint32 = std::numeric_limits<uint32_t>::max();
constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
// What OpenAI's API promises for parameters that a request does not have.
constexpr float kDefaultTemperature = 1;
constexpr uint32_t kDefaultCompletionTokens = 16;

using Setter = absl::Status (*)(const JsonArgument& argument, OpenAiRequest* request);

// ---- sampling ----
// A setter of a number of SamplingParams.
template <void (v1::SamplingParams::*kSet)(float)>
absl::Status SetNumber(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(const float number, argument.Float());
  (request->generate.mutable_sampling()->*kSet)(number);
  return absl::OkStatus();
}

absl::Status SetTopK(const JsonArgument& argument, OpenAiRequest* request) {
  // Other servers turn it off with -1.
  ASSIGN_OR_RETURN(const int64_t number, argument.Integer(-1, kMaxInt32));
  request->generate.mutable_sampling()->set_top_k(std::max<int32_t>(number, 0));
  return absl::OkStatus();
}

absl::Status SetSeed(const JsonArgument& argument, OpenAiRequest* request) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  uint64_t seed = 0;
  if (argument.value().is_number_unsigned()) {
    seed = argument.value().get<uint64_t>();
  } else {
    ASSIGN_OR_RETURN(const int64_t number, argument.Integer(kLeast, kMost));
    seed = static_cast<uint64_t>(number);
  }
  request->generate.mutable_sampling()->set_seed(seed);
  return absl::OkStatus();
}

absl::Status SetLogitBias(const JsonArgument& argument, OpenAiRequest* request) {
  return argument.ForEachField([&](const std::string& token, const JsonArgument& bias) {
    int32_t id = 0;
    if (!absl::SimpleAtoi(token, &id)) return bias.Error("must be named by a token id");
    ASSIGN_OR_RETURN((*request->generate.mutable_sampling()->mutable_logit_bias())[id],
                     bias.Float());
    return absl::OkStatus();
  });
}

// ---- the end of the answer ----
absl::Status SetMaxTokens(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(const int64_t tokens, argument.Integer(1, kMaxUint32));
  if (!request->has_max_completion_tokens) {
    request->generate.mutable_stop()->set_max_tokens(static_cast<uint32_t>(tokens));
  }
  return absl::OkStatus();
}

absl::Status SetMaxCompletionTokens(const JsonArgument& argument, OpenAiRequest* request) {
  request->has_max_completion_tokens = false;
  RETURN_IF_ERROR(SetMaxTokens(argument, request));
  request->has_max_completion_tokens = true;
  return absl::OkStatus();
}

absl::Status SetMinTokens(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(const int64_t tokens, argument.Integer(0, kMaxUint32));
  request->generate.mutable_stop()->set_min_tokens(static_cast<uint32_t>(tokens));
  return absl::OkStatus();
}

absl::Status SetStop(const JsonArgument& argument, OpenAiRequest* request) {
  v1::StopConditions& stop = *request->generate.mutable_stop();
  if (argument.value().is_string()) {
    stop.add_stop(argument.value().get<std::string>());
    return absl::OkStatus();
  }
  if (!argument.value().is_array()) return argument.Error("must be a string or a list of strings");
  return argument.ForEach([&](const JsonArgument& element) {
    ASSIGN_OR_RETURN(*stop.add_stop(), element.String());
    return absl::OkStatus();
  });
}

absl::Status SetStopTokens(const JsonArgument& argument, OpenAiRequest* request) {
  return argument.ForEach([&](const JsonArgument& element) {
    ASSIGN_OR_RETURN(const int64_t id, element.Integer(0, kMaxInt32));
    request->generate.mutable_stop()->add_stop_token_ids(static_cast<int32_t>(id));
    return absl::OkStatus();
  });
}

absl::Status SetIgnoreEos(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(const bool ignore, argument.Bool());
  request->generate.mutable_stop()->set_ignore_eos(ignore);
  return absl::OkStatus();
}

// ---- the form of the answer ----
absl::Status SetAnswers(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(const int64_t answers, argument.Integer(0, kMaxUint32));
  request->generate.set_n(static_cast<uint32_t>(answers));
  return absl::OkStatus();
}

absl::Status SetStream(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(request->stream, argument.Bool());
  return absl::OkStatus();
}

absl::Status SetStreamOptions(const JsonArgument& argument, OpenAiRequest* request) {
  return argument.ForEachField([&](const std::string& name, const JsonArgument& option) {
    if (name == "include_usage") {
      ASSIGN_OR_RETURN(request->stream_usage, option.Bool());
      return absl::OkStatus();
    }
    if (name == "include_obfuscation" || name == "continuous_usage_stats") {
      return option.MustBe(false);
    }
    return option.Error("is not a parameter that this server supports");
  });
}

absl::Status SetCompletionLogprobs(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(const int64_t count, argument.Integer(0, kMaxInt32));
  request->generate.mutable_output()->set_logprobs(static_cast<uint32_t>(count));
  return absl::OkStatus();
}

// Without `logprobs`, 0 is what the answer has anyway.
absl::Status SetTopLogprobs(const JsonArgument& argument, OpenAiRequest* request) {
  return argument.value() == 0 ? absl::OkStatus() : SetCompletionLogprobs(argument, request);
}

absl::Status SetChatLogprobs(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(request->logprobs, argument.Bool());
  return absl::OkStatus();
}

// ---- the model ----
absl::Status SetModel(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(*request->generate.mutable_model(), argument.String());
  return absl::OkStatus();
}

// ---- what OpenAI's API does not have ----
absl::Status SetCacheSalt(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(*request->generate.mutable_cache_salt(), argument.String());
  return absl::OkStatus();
}

absl::Status SetSpeculation(const JsonArgument& argument, OpenAiRequest* request) {
  v1::SpeculationOptions& speculation = *request->generate.mutable_speculation();
  return argument.ForEachField([&](const std::string& name, const JsonArgument& field) {
    if (name == "policy") {
      ASSIGN_OR_RETURN(*speculation.mutable_policy(), field.String());
    } else if (name == "max_tree_nodes") {
      ASSIGN_OR_RETURN(const int64_t nodes, field.Integer(0, kMaxUint32));
      speculation.set_max_tree_nodes(static_cast<uint32_t>(nodes));
    } else if (name == "latency_target_ms") {
      ASSIGN_OR_RETURN(const int64_t target, field.Integer(0, kMaxUint32));
      speculation.set_latency_target_ms(static_cast<uint32_t>(target));
    } else {
      return field.Error("is not a parameter that this server supports");
    }
    return absl::OkStatus();
  });
}

// ---- parameters that do not change the answer ----
absl::Status SetUser(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(request->user, argument.String());
  return absl::OkStatus();
}

absl::Status Ignore(const JsonArgument&, OpenAiRequest*) { return absl::OkStatus(); }

template <bool kValue>
absl::Status MustBe(const JsonArgument& argument, OpenAiRequest*) {
  return argument.MustBe(kValue);
}

absl::Status MustBeEmpty(const JsonArgument& argument, OpenAiRequest*) {
  return argument.MustBe(json::array());
}

absl::Status MustBeEmptyText(const JsonArgument& argument, OpenAiRequest*) {
  return argument.MustBe("");
}

absl::Status MustBeText(const JsonArgument& argument, OpenAiRequest*) {
  return argument.MustBe(json::array({"text"}));
}

absl::Status MustBeMedium(const JsonArgument& argument, OpenAiRequest*) {
  return argument.MustBe("medium");
}

// The choice among no functions.
absl::Status SetFunctionCall(const JsonArgument& argument, OpenAiRequest*) {
  if (argument.value() == "auto") return absl::OkStatus();
  return argument.MustBe("none");
}

// All answers are kept, so it must be n.
absl::Status SetBestOf(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(request->best_of, argument.Integer(0, kMaxUint32));
  return absl::OkStatus();
}

struct Parameter {
  const char* name;
  Setter set;
};

constexpr Parameter kShared[] = {
    {"cache_salt", SetCacheSalt},
    {"frequency_penalty", SetNumber<&v1::SamplingParams::set_frequency_penalty>},
    {"ignore_eos", SetIgnoreEos},
    {"logit_bias", SetLogitBias},
    {"max_tokens", SetMaxTokens},
    {"metadata", Ignore},
    {"min_p", SetNumber<&v1::SamplingParams::set_min_p>},
    {"min_tokens", SetMinTokens},
    {"model", SetModel},
    {"n", SetAnswers},
    {"presence_penalty", SetNumber<&v1::SamplingParams::set_presence_penalty>},
    {"repetition_penalty", SetNumber<&v1::SamplingParams::set_repetition_penalty>},
    {"response_format", SetResponseFormat},
    {"seed", SetSeed},
    {"skip_special_tokens", MustBe<true>},
    {"speculation", SetSpeculation},
    {"stop", SetStop},
    {"stop_token_ids", SetStopTokens},
    {"stream", SetStream},
    {"stream_options", SetStreamOptions},
    {"structured_outputs", SetStructuredOutputs},
    {"temperature", SetNumber<&v1::SamplingParams::set_temperature>},
    {"top_k", SetTopK},
    {"top_p", SetNumber<&v1::SamplingParams::set_top_p>},
    {"user", SetUser},
};
constexpr Parameter kOfCompletions[] = {
    {"best_of", SetBestOf}, {"echo", MustBe<false>},     {"logprobs", SetCompletionLogprobs},
    {"prompt", SetPrompt},  {"suffix", MustBeEmptyText},
};
constexpr Parameter kOfChats[] = {
    {"add_generation_prompt", MustBe<true>},
    {"chat_template_kwargs", SetTemplateArguments},
    {"continue_final_message", MustBe<false>},
    {"function_call", SetFunctionCall},
    {"functions", MustBeEmpty},
    {"logprobs", SetChatLogprobs},
    {"max_completion_tokens", SetMaxCompletionTokens},
    {"messages", SetMessages},
    {"modalities", MustBeText},
    {"parallel_tool_calls", SetParallelToolCalls},
    {"prediction", Ignore},
    {"prompt_cache_key", Ignore},
    {"prompt_cache_retention", Ignore},
    {"safety_identifier", Ignore},
    {"service_tier", Ignore},
    {"store", Ignore},
    {"tool_choice", SetToolChoice},
    {"tools", SetTools},
    {"top_logprobs", SetTopLogprobs},
    {"verbosity", MustBeMedium},
};

// The setter of a parameter; null if there is none.
Setter Find(OpenAiKind kind, const std::string& name) {
  const auto find = [&](const auto& parameters) -> Setter {
    for (const Parameter& parameter : parameters) {
      if (name == parameter.name) return parameter.set;
    }
    return nullptr;
  };
  const Setter own = kind == OpenAiKind::kChat ? find(kOfChats) : find(kOfCompletions);
  return own != nullptr ? own : find(kShared);
}

// Applies OpenAI's defaults, and checks what concerns several parameters.
absl::Status Complete(OpenAiRequest* request) {
  v1::GenerateRequest& generate = request->generate;
  if (!generate.sampling().has_temperature()) {
    generate.mutable_sampling()->set_temperature(kDefaultTemperature);
  }
  if (request->stream_usage && !request->stream) {
    return FieldError("stream_options", "is set, but stream is not true");
  }
  if (request->kind == OpenAiKind::kCompletion) {
    if (generate.prompt_case() == v1::GenerateRequest::PROMPT_NOT_SET) {
      return FieldError("prompt", "is missing");
    }
    const uint64_t n = RequestParser::AnswersPerPrompt(generate);
    if (request->best_of && *request->best_of != n) {
      return FieldError("best_of", absl::StrCat("is ", *request->best_of, ", but n is ", n,
                                                "; this server supports no other value than n"));
    }
    const uint64_t answers = (1 + request->other_prompts.size()) * n;
    if (!request->other_prompts.empty() && answers > RequestParser::kMaxAnswers) {
      return FieldError("prompt", absl::StrCat(1 + request->other_prompts.size(),
                                               " prompts with n = ", n, " make ", answers,
                                               " answers; at most ", RequestParser::kMaxAnswers));
    }
    if (!generate.stop().has_max_tokens()) {
      generate.mutable_stop()->set_max_tokens(kDefaultCompletionTokens);
    }
    if (!request->other_prompts.empty()) {
      v1::GenerateRequest parameters = generate;
      parameters.clear_prompt();
      for (v1::GenerateRequest& other : request->other_prompts) other.MergeFrom(parameters);
    }
    return absl::OkStatus();
  }
  if (generate.chat().messages().empty()) return FieldError("messages", "is missing");
  if (generate.output().has_logprobs() && !request->logprobs) {
    return FieldError("top_logprobs", "is set, but logprobs is not true");
  }
  if (request->logprobs && !generate.output().has_logprobs()) {
    generate.mutable_output()->set_logprobs(0);
  }
  return CompleteTools(request);
}

}  // namespace

absl::StatusOr<OpenAiRequest> ParseOpenAiRequest(OpenAiKind kind, const std::string& body) {
  ASSIGN_OR_RETURN(const json parsed, ParseJsonObject(body));
  OpenAiRequest request;
  request.kind = kind;
  RETURN_IF_ERROR(JsonArgument("", &parsed)
                      .ForEachField([&](const std::string& name, const JsonArgument& argument) {
                        const Setter set = Find(kind, name);
                        if (set != nullptr) return set(argument, &request);
                        return argument.Error("is not a parameter that this server supports");
                      }));
  RETURN_IF_ERROR(Complete(&request));
  return request;
}

std::string OpenAiField(const OpenAiRequest& request, const std::string& field) {
  const bool is_chat = request.kind == OpenAiKind::kChat;
  if (field == "output.logprobs") return is_chat ? "top_logprobs" : "logprobs";
  if (field == "text" || field == "tokens") return "prompt";
  if (field == "prompt" || field == "chat") return is_chat ? "messages" : "prompt";
  if (field == "chat.template_args_json") return "chat_template_kwargs";
  if (field == "chat.tools_json") return "tools";
  if (absl::StartsWith(field, "constraint")) return request.constraint_parameter;
  absl::string_view name = field;
  absl::ConsumeSuffix(&name, ".fields_json");
  for (const char* message : {"sampling.", "stop.", "chat."}) {
    if (absl::ConsumePrefix(&name, message)) break;
  }
  return std::string(name);
}

}  // namespace bastion
