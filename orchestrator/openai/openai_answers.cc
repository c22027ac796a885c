#include "orchestrator/openai/openai_answers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/version.h"
#include "orchestrator/api/http_status.h"
#include "orchestrator/intake/request_parser.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

using Json = nlohmann::ordered_json;

template <typename AnyJson>
std::string Dump(const AnyJson& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, AnyJson::error_handler_t::replace);
}
std::string Event(const Json& value) { return absl::StrCat("data: ", Dump(value), "\n\n"); }

// Appends the lists in `from` to those of the same names in `to`.
void AppendLists(const Json& from, Json* to) {
  if (from.is_null()) return;
  if (to->is_null()) {
    *to = from;
    return;
  }
  for (const auto& [name, list] : from.items()) {
    if (list.is_array()) (*to)[name].insert((*to)[name].end(), list.begin(), list.end());
  }
}

// The type and the code of an error in OpenAI's API.
std::pair<const char*, Json> TypeAndCode(int http_status) {
  switch (http_status) {
    case 401:
      return {"authentication_error", "invalid_api_key"};
    case 403:
      return {"permission_error", nullptr};
    case 404:
      return {"not_found_error", "not_found"};
    case 429:
      return {"rate_limit_error", "rate_limit_exceeded"};
    default:
      return {http_status < 500 ? "invalid_request_error" : "server_error", nullptr};
  }
}

}  // namespace

OpenAiAnswers::OpenAiAnswers(const OpenAiRequest& request, const ServedModel& model,
                             const std::string& id, absl::Time created, const AnswerForm& form)
    : request_(request),
      model_(model),
      id_(absl::StrCat(is_chat() ? "chatcmpl-" : "cmpl-", id)),
      created_(absl::ToUnixSeconds(created)),
      form_(form),
      answers_per_prompt_(static_cast<int>(RequestParser::AnswersPerPrompt(request.generate))),
      answers_(answers_per_prompt_ * (1 + request.other_prompts.size()),
               Answer{.logprobs = OpenAiLogprobs(request.kind, &model.tokenizer)}) {}

OpenAiAnswers::Json OpenAiAnswers::Envelope(const char* type, Json choices) const {
  return {{"id", id_},
          {"object", type},
          {"created", created_},
          {"model", model_.name},
          {"system_fingerprint", absl::StrCat("bastion-", kVersion)},
          {"choices", std::move(choices)}};
}

OpenAiAnswers::Json OpenAiAnswers::Usage() const {
  Json usage = {{"prompt_tokens", prompt_tokens_},
                {"completion_tokens", completion_tokens_},
                {"total_tokens", prompt_tokens_ + completion_tokens_},
                {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}}};
  if (form_.reasoning == ReasoningStart::kNone) return usage;
  int64_t reasoning_tokens = 0;
  for (const Answer& answer : answers_) {
    if (answer.chat) reasoning_tokens += answer.chat->reasoning_tokens();
  }
  usage["completion_tokens_details"] = {{"reasoning_tokens", reasoning_tokens}};
  return usage;
}

void OpenAiAnswers::SetFinish(const OutputDelta& delta, Json* choice) const {
  Json& reason = (*choice)["finish_reason"];
  if (!delta.end) return;
  const auto& chat = answers_[delta.answer].chat;
  const bool calls = delta.end->reason != FinishReason::kLength && chat && chat->has_calls();
  reason = calls ? "tool_calls" : FinishReasonName(delta.end->reason);
  // What stopped the answer, as vLLM names it. Null: the end-of-sequence token, or the length.
  Json& stop = (*choice)["stop_reason"];
  if (!delta.end->stop_string.empty()) stop = delta.end->stop_string;
  const auto& asked = request_.generate.stop().stop_token_ids();
  if (delta.end->stop_token &&
      std::find(asked.begin(), asked.end(), *delta.end->stop_token) != asked.end()) {
    stop = *delta.end->stop_token;
  }
}

OpenAiAnswers::Json OpenAiAnswers::Logprobs(const OutputDelta& delta) {
  if (!request_.generate.output().has_logprobs()) return nullptr;
  return answers_[delta.answer].logprobs.Add(delta);
}

void OpenAiAnswers::Count(const OutputDelta& delta) {
  if (!delta.end) return;
  completion_tokens_ += delta.end->completion_tokens;
  if (delta.answer % answers_per_prompt_ != 0) return;
  prompt_tokens_ += delta.end->prompt_tokens;
  cached_tokens_ += delta.end->cached_prompt_tokens;
}

ChatAnswer& OpenAiAnswers::ChatOf(int answer) {
  std::optional<ChatAnswer>& chat = answers_[answer].chat;
  if (!chat) chat.emplace(request_, form_, absl::StrCat(id_, "/", answer), &model_.tokenizer);
  return *chat;
}

std::string OpenAiAnswers::Events(const OutputDelta& delta) {
  Count(delta);
  Json fields = is_chat() ? ChatOf(delta.answer).Push(delta) : Json();
  const bool has_text = is_chat() ? !fields.empty() : !delta.text.empty();
  Json logprobs = Logprobs(delta);
  const bool has_tokens = !logprobs.is_null() && !logprobs.front().empty();
  if (!has_text && !has_tokens && !delta.end) return "";
  Json choice = {{"index", delta.answer}};
  if (is_chat()) {
    Json& message = choice["delta"] = Json::object();
    if (!std::exchange(answers_[delta.answer].has_begun, true)) message["role"] = "assistant";
    if (fields.empty()) fields["content"] = "";
    message.update(fields);
  } else {
    choice["text"] = delta.text;
  }
  choice["logprobs"] = std::move(logprobs);
  SetFinish(delta, &choice);
  const char* const type = is_chat() ? "chat.completion.chunk" : "text_completion";
  Json event = Envelope(type, Json::array({std::move(choice)}));
  if (request_.stream_usage) event["usage"] = nullptr;
  return Event(event);
}

std::string OpenAiAnswers::LastEvents() const {
  std::string events;
  if (request_.stream_usage) {
    Json event = Envelope(is_chat() ? "chat.completion.chunk" : "text_completion", Json::array());
    event["usage"] = Usage();
    events = Event(event);
  }
  return absl::StrCat(events, "data: [DONE]\n\n");
}

void OpenAiAnswers::Add(const OutputDelta& delta) {
  Count(delta);
  Answer& answer = answers_[delta.answer];
  if (is_chat()) {
    (void)ChatOf(delta.answer).Push(delta);
  } else {
    answer.text += delta.text;
  }
  AppendLists(Logprobs(delta), &answer.lists);
  SetFinish(delta, &answer.finish);
}

std::string OpenAiAnswers::Object() {
  Json choices = Json::array();
  for (size_t i = 0; i < answers_.size(); ++i) {
    Answer& answer = answers_[i];
    Json choice = {{"index", i}};
    if (is_chat()) {
      choice["message"] = ChatOf(static_cast<int>(i)).Message();
    } else {
      choice["text"] = std::move(answer.text);
    }
    choice["logprobs"] = std::move(answer.lists);
    choice.update(answer.finish);
    choices.push_back(std::move(choice));
  }
  Json object = Envelope(is_chat() ? "chat.completion" : "text_completion", std::move(choices));
  object["usage"] = Usage();
  return Dump(object);
}

std::string OpenAiErrorJson(int http_status, const std::string& message,
                            const std::string& parameter) {
  const auto [type, code] = TypeAndCode(http_status);
  const Json shown = parameter.empty() ? Json() : Json(parameter);
  return Dump(
      Json{{"error", {{"message", message}, {"type", type}, {"param", shown}, {"code", code}}}});
}

std::string OpenAiErrorJson(const OpenAiRequest& request, const absl::Status& status) {
  const int http_status = HttpStatusOf(status);
  if (const auto problem = FieldProblemOf(status)) {
    const std::string parameter = OpenAiField(request, problem->field);
    return OpenAiErrorJson(http_status, absl::StrCat(parameter, ": ", problem->problem), parameter);
  }
  return OpenAiErrorJson(http_status, std::string(status.message()));
}

}  // namespace bastion
