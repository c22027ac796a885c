#include "orchestrator/openai/openai_constraint.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/status.h"

namespace bastion {
namespace {

using json = nlohmann::ordered_json;

// A schema, as an object or as its text.
absl::Status SetSchema(const JsonArgument& argument, OpenAiRequest* request) {
  const json& value = argument.value();
  request->generate.mutable_constraint()->set_json_schema(
      value.is_string() ? value.get<std::string>() : value.dump());
  return absl::OkStatus();
}

// A string in a grammar. Lark quotes strings as JSON does, but also escapes the control character
// DEL.
std::string InLark(const json& text) {
  return absl::StrReplaceAll(text.dump(), {{"\x7F", "\\u007f"}});
}

}  // namespace

absl::Status SetResponseFormat(const JsonArgument& argument, OpenAiRequest* request) {
  const json& format = argument.value();
  const std::string type = format.is_object() ? format.value("type", json()).dump() : "";
  if (type == R"("text")") return absl::OkStatus();
  if (type == R"("json_object")") {
    request->generate.mutable_constraint()->set_json_schema(R"({"type": "object"})");
    return absl::OkStatus();
  }
  if (type != R"("json_schema")") {
    return argument.Error(R"(must have the type "text", "json_object" or "json_schema")");
  }
  if (!format.contains("json_schema") || !format["json_schema"].is_object() ||
      !format["json_schema"].contains("schema")) {
    return argument.Error("has no json_schema.schema");
  }
  const json& schema = format["json_schema"]["schema"];
  return SetSchema(JsonArgument(argument.name() + ".json_schema.schema", &schema), request);
}

absl::Status SetStructuredOutputs(const JsonArgument& argument, OpenAiRequest* request) {
  v1::Constraint& constraint = *request->generate.mutable_constraint();
  request->constraint_parameter = "structured_outputs";
  return argument.ForEachField([&](const std::string& name, const JsonArgument& field) {
    if (constraint.language_case() != v1::Constraint::LANGUAGE_NOT_SET) {
      return argument.Error("has several constraints; use one");
    }
    if (name == "json") return SetSchema(field, request);
    if (name == "regex") {
      ASSIGN_OR_RETURN(*constraint.mutable_regex(), field.String());
    } else if (name == "grammar") {
      ASSIGN_OR_RETURN(*constraint.mutable_grammar(), field.String());
    } else if (name == "choice") {
      std::vector<std::string> choices;
      RETURN_IF_ERROR(field.ForEach([&](const JsonArgument& choice) {
        RETURN_IF_ERROR(choice.String().status());
        choices.push_back(InLark(choice.value()));
        return absl::OkStatus();
      }));
      if (choices.empty()) return field.Error("is empty");
      constraint.set_grammar(absl::StrCat("start: ", absl::StrJoin(choices, " | ")));
    } else {
      return field.Error("is not a parameter that this server supports");
    }
    return absl::OkStatus();
  });
}

}  // namespace bastion
