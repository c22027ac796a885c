#include "orchestrator/openai/openai_tools.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kMaxTools = 128;
constexpr size_t kLongestName = 64;
// A function without parameters takes none.
constexpr char kNoArguments[] =
    R"({"type": "object", "properties": {}, "additionalProperties": false})";

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

absl::Status SetFunction(const JsonArgument& function, Tool* tool) {
  tool->schema = kNoArguments;
  return function.ForEachField([&](const std::string& name, const JsonArgument& field) {
    if (name == "name") {
      ASSIGN_OR_RETURN(tool->name, field.String());
      return IsName(tool->name)
                 ? absl::OkStatus()
                 : field.Error("must have 1 to 64 characters of a-z, A-Z, 0-9, _ and -");
    }
    if (name == "parameters") {
      if (!field.value().is_object()) return field.Error("must be an object");
      tool->schema = field.value().dump();
      return absl::OkStatus();
    }
    if (name == "description") return field.String().status();
    if (name == "strict") return field.Bool().status();
    return absl::OkStatus();  // For the chat template.
  });
}

// A tool or a choice: an object with the type "function" and the field `function`.
absl::Status CheckType(const JsonArgument& argument) {
  if (!argument.value().is_object()) return argument.Error("must be an object");
  const json type = argument.value().value("type", json());
  if (type != "function") return argument.Error(R"(must have the type "function")");
  const auto function = argument.value().find("function");
  if (function != argument.value().end() && function->is_object()) return absl::OkStatus();
  return argument.Error("has no function");
}

// The arguments of a call: OpenAI's API has them as text, chat templates read an object.
json ParsedArguments(const std::string& text) {
  absl::StatusOr<json> parsed = ParseJsonObject(text);
  return parsed.ok() ? *std::move(parsed) : json(text);
}

absl::StatusOr<json> ToolCalls(const JsonArgument& argument) {
  json calls = json::array();
  RETURN_IF_ERROR(argument.ForEach([&](const JsonArgument& call) {
    RETURN_IF_ERROR(CheckType(call));
    json& added = calls.emplace_back(call.value());
    json& function = added["function"];
    if (!function.value("name", json()).is_string()) return call.Error("has no function.name");
    const json arguments = function.value("arguments", json("{}"));
    if (!arguments.is_string()) {
      return call.Error("must have function.arguments that are a string");
    }
    function["arguments"] = ParsedArguments(arguments.get<std::string>());
    return absl::OkStatus();
  }));
  return calls;
}

}  // namespace

absl::Status SetTools(const JsonArgument& argument, OpenAiRequest* request) {
  std::set<std::string> names;
  RETURN_IF_ERROR(argument.ForEach([&](const JsonArgument& element) {
    RETURN_IF_ERROR(CheckType(element));
    const JsonArgument function(element.name() + ".function", &element.value()["function"]);
    Tool& tool = request->tools.emplace_back();
    RETURN_IF_ERROR(SetFunction(function, &tool));
    if (tool.name.empty()) return function.Error("has no name");
    if (!names.insert(tool.name).second) return function.Error("has the name of another function");
    return absl::OkStatus();
  }));
  if (request->tools.size() > kMaxTools) {
    return argument.Error(
        absl::StrCat("has ", request->tools.size(), " functions; at most ", kMaxTools));
  }
  if (!request->tools.empty()) {
    request->generate.mutable_chat()->set_tools_json(argument.value().dump());
  }
  return absl::OkStatus();
}

absl::Status SetToolChoice(const JsonArgument& argument, OpenAiRequest* request) {
  const json& value = argument.value();
  if (value == "none") {
    request->tool_choice = ToolChoice::kNone;
  } else if (value == "auto") {
    request->tool_choice = ToolChoice::kAuto;
  } else if (value == "required") {
    request->tool_choice = ToolChoice::kRequired;
  } else if (value.is_object()) {
    RETURN_IF_ERROR(CheckType(argument));
    const json name = value["function"].value("name", json());
    if (!name.is_string()) return argument.Error("has no function.name");
    request->tool_choice = ToolChoice::kRequired;
    request->chosen_tool = name.get<std::string>();
  } else {
    return argument.Error(R"(must be "none", "auto", "required" or a function)");
  }
  return absl::OkStatus();
}

absl::Status SetParallelToolCalls(const JsonArgument& argument, OpenAiRequest* request) {
  ASSIGN_OR_RETURN(request->parallel_tool_calls, argument.Bool());
  return absl::OkStatus();
}

absl::Status CompleteTools(OpenAiRequest* request) {
  if (request->tool_choice == ToolChoice::kRequired && request->tools.empty()) {
    return FieldError("tool_choice", "requires a call, but there are no tools");
  }
  const v1::Constraint& constraint = request->generate.constraint();
  if (request->tool_choice == ToolChoice::kRequired &&
      (constraint.has_regex() || constraint.has_grammar())) {
    return FieldError("tool_choice", "requires a call, and structured_outputs another text");
  }
  if (request->tool_choice == ToolChoice::kNone) {
    // The model cannot call what it does not see.
    request->tools.clear();
    request->generate.mutable_chat()->clear_tools_json();
  }
  if (request->chosen_tool.empty()) return absl::OkStatus();
  const auto chosen =
      std::find_if(request->tools.begin(), request->tools.end(),
                   [&](const Tool& tool) { return tool.name == request->chosen_tool; });
  if (chosen == request->tools.end()) {
    return FieldError("tool_choice", "names a function that is not in tools");
  }
  request->tools = {std::exchange(*chosen, {})};
  request->parallel_tool_calls = false;
  return absl::OkStatus();
}

absl::Status SetMessageField(const std::string& name, const JsonArgument& field, json* fields) {
  if (name == "tool_calls") {
    ASSIGN_OR_RETURN((*fields)[name], ToolCalls(field));
    return absl::OkStatus();
  }
  if (name == "tool_call_id" || name == "name" || name == "reasoning_content" ||
      name == "reasoning" || name == "refusal") {
    RETURN_IF_ERROR(field.String().status());
    (*fields)[name] = field.value();
    return absl::OkStatus();
  }
  if (name == "annotations") return field.MustBe(json::array());
  return field.Error("is not a parameter that this server supports");
}

void ConstrainAnswers(const ServedModel& model, ToolFormat format, OpenAiRequest* request) {
  if (request->kind != OpenAiKind::kChat) return;
  v1::Constraint& constraint = *request->generate.mutable_constraint();
  const bool is_required = request->tool_choice == ToolChoice::kRequired;
  if (is_required || (!request->tools.empty() && constraint.has_json_schema())) {
    const std::string schema = std::exchange(*constraint.mutable_json_schema(), "");
    v1::SchemaGrammar& grammar = *constraint.mutable_schema_grammar();
    ToolCallGrammar calls =
        MakeToolCallGrammar(format, request->tools, request->parallel_tool_calls, model.tokenizer);
    grammar.set_grammar(
        absl::StrCat(is_required ? "start: calls\n" : "start: calls | text\n", calls.rules));
    for (auto& [name, text] : calls.schemas) (*grammar.mutable_json_schemas())[name] = text;
    if (!is_required) (*grammar.mutable_json_schemas())["text"] = schema;
    if (is_required) request->constraint_parameter = "tools";
  }
  if (constraint.language_case() == v1::Constraint::LANGUAGE_NOT_SET) {
    request->generate.clear_constraint();
  } else if (constraint.has_json_schema() || constraint.has_schema_grammar()) {
    constraint.set_after_reasoning(true);
  }
}

}  // namespace bastion
