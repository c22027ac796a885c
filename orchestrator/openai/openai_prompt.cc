#include "orchestrator/openai/openai_prompt.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "orchestrator/intake/request_parser.h"
#include "orchestrator/openai/openai_tools.h"

namespace bastion {
namespace {

using json = nlohmann::ordered_json;

constexpr int64_t kMaxTokenId = std::numeric_limits<int32_t>::max();

absl::Status SetTokens(const JsonArgument& argument, v1::GenerateRequest* request) {
  v1::TokenIds& tokens = *request->mutable_tokens();
  return argument.ForEach([&](const JsonArgument& element) {
    ASSIGN_OR_RETURN(const int64_t id, element.Integer(0, kMaxTokenId));
    tokens.add_ids(static_cast<int32_t>(id));
    return absl::OkStatus();
  });
}

// Sets a prompt: a text or token ids.
absl::Status SetOnePrompt(const JsonArgument& argument, v1::GenerateRequest* request) {
  const json& value = argument.value();
  if (value.is_string()) {
    request->set_text(value.get<std::string>());
    return absl::OkStatus();
  }
  if (value.is_array() && !value.empty()) return SetTokens(argument, request);
  return argument.Error("must be a string or a list of token ids");
}

// The text of a message. Other contents, e.g. images, are refused.
absl::StatusOr<std::string> Content(const JsonArgument& argument) {
  if (argument.value().is_string()) return argument.String();
  if (!argument.value().is_array()) return argument.Error("must be a string or a list of parts");
  std::string text;
  RETURN_IF_ERROR(argument.ForEach([&](const JsonArgument& part) {
    return part.ForEachField([&](const std::string& name, const JsonArgument& field) {
      if (name == "type") return field.MustBe("text");
      if (name != "text") return field.Error("is not a parameter that this server supports");
      ASSIGN_OR_RETURN(const std::string piece, field.String());
      text += piece;
      return absl::OkStatus();
    });
  }));
  return text;
}

absl::Status SetMessage(const JsonArgument& argument, v1::ChatMessage* message) {
  json fields = json::object();
  RETURN_IF_ERROR(argument.ForEachField([&](const std::string& name, const JsonArgument& field) {
    if (name == "role") {
      ASSIGN_OR_RETURN(*message->mutable_role(), field.String());
      // OpenAI's newer name of the role.
      if (message->role() == "developer") message->set_role("system");
      return absl::OkStatus();
    }
    if (name == "content") {
      ASSIGN_OR_RETURN(*message->mutable_content(), Content(field));
      return absl::OkStatus();
    }
    return SetMessageField(name, field, &fields);
  }));
  if (!fields.empty()) message->set_fields_json(fields.dump());
  return message->role().empty() ? argument.Error("has no role") : absl::OkStatus();
}

}  // namespace

absl::Status SetPrompt(const JsonArgument& argument, OpenAiRequest* request) {
  const json& value = argument.value();
  if (!value.is_array() || value.empty() || value[0].is_number()) {
    return SetOnePrompt(argument, &request->generate);
  }
  if (value.size() > RequestParser::kMaxAnswers) {
    return argument.Error(
        absl::StrCat("has ", value.size(), " prompts; at most ", RequestParser::kMaxAnswers));
  }
  return argument.ForEach([&](const JsonArgument& prompt) {
    if (&prompt.value() == &value[0]) return SetOnePrompt(prompt, &request->generate);
    return SetOnePrompt(prompt, &request->other_prompts.emplace_back());
  });
}

absl::Status SetMessages(const JsonArgument& argument, OpenAiRequest* request) {
  v1::ChatMessages& chat = *request->generate.mutable_chat();
  RETURN_IF_ERROR(argument.ForEach(
      [&](const JsonArgument& message) { return SetMessage(message, chat.add_messages()); }));
  return chat.messages().empty() ? argument.Error("is empty") : absl::OkStatus();
}

absl::Status SetTemplateArguments(const JsonArgument& argument, OpenAiRequest* request) {
  if (!argument.value().is_object()) return argument.Error("must be an object");
  // Text keeps the order of names and the type of numbers, so that templates print what was sent.
  request->generate.mutable_chat()->set_template_args_json(argument.value().dump());
  return absl::OkStatus();
}

}  // namespace bastion
