#include "common/hub/chat_template.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/bounded_json.h"
#include "common/hub/ffi.h"
#include "common/hub/json_file.h"
#include "common/hub/named_tokens.h"
#include "common/hub/rust_boundary.h"
#include "common/hub/utf8.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// The names of a message's reasoning. The first is the one that templates read today.
constexpr const char* kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

struct Sources {
  std::string plain, tools;
};

// The templates in tokenizer_config.json: a string, or a list of {name, template}.
absl::StatusOr<Sources> InlineTemplates(const JsonObject& config) {
  const json* found = config.Find("chat_template");
  if (found != nullptr && found->is_string()) {
    return Sources{found->get<std::string>(), found->get<std::string>()};
  }
  const auto entry_named = [&](const char* name) -> const json* {
    if (found == nullptr || !found->is_array()) return nullptr;
    for (const json& entry : *found) {
      if (entry.is_object() && entry.value("name", json()) == name &&
          entry.value("template", json()).is_string()) {
        return &entry["template"];
      }
    }
    return nullptr;
  };
  if (const json* plain = entry_named("default")) {
    const json* tools = entry_named("tool_use");
    return Sources{plain->get<std::string>(),
                   (tools != nullptr ? tools : plain)->get<std::string>()};
  }
  if (found != nullptr) return config.KeyError("chat_template", "has no default template");
  return absl::NotFoundError(
      absl::StrCat(config.origin(),
                   ": no 'chat_template', and no chat_template.jinja in its folder; this "
                   "checkpoint does not support chat: send a plain prompt"));
}

absl::StatusOr<Sources> ReadSources(const std::string& folder, const JsonObject& config) {
  absl::StatusOr<std::string> file = ReadTextFile(absl::StrCat(folder, "/chat_template.jinja"));
  if (absl::IsNotFound(file.status())) return InlineTemplates(config);
  RETURN_IF_ERROR(file.status());
  return Sources{*file, *file};
}

// Adds the variables of the JSON object `arguments`.
absl::Status AddArguments(std::string_view arguments, ordered_json* variables) {
  ASSIGN_OR_RETURN(const ordered_json parsed,
                   ParseBoundedJson(arguments, "the arguments of the chat template"));
  if (!parsed.is_object()) {
    return absl::InvalidArgumentError(
        "the arguments of the chat template must be a JSON object, e.g. "
        "{\"enable_thinking\": false}");
  }
  for (const auto& [name, value] : parsed.items()) {
    if (name == "messages" || name == "add_generation_prompt") {
      return absl::InvalidArgumentError(absl::StrCat("the chat template's argument \"", name,
                                                     "\" is part of the conversation; remove it"));
    }
    (*variables)[name] = value;
  }
  return absl::OkStatus();
}

absl::Status AddTools(std::string_view tools, ordered_json* variables) {
  if (tools.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(ordered_json parsed, ParseBoundedJson(tools, "the tools"));
  if (!parsed.is_array()) return absl::InvalidArgumentError("the tools must be a JSON list");
  if (!(*variables)["tools"].is_null()) {
    return absl::InvalidArgumentError("the tools are set twice; remove those in the arguments");
  }
  (*variables)["tools"] = std::move(parsed);
  return absl::OkStatus();
}

absl::StatusOr<ordered_json> MessageJson(const ChatMessage& message, size_t i) {
  RETURN_IF_ERROR(CheckUtf8(message.role, absl::StrCat("the role of message ", i)));
  RETURN_IF_ERROR(CheckUtf8(message.content, absl::StrCat("the content of message ", i)));
  const std::string what = absl::StrCat("the fields of message ", i);
  ASSIGN_OR_RETURN(const ordered_json fields, ParseBoundedJson(message.fields, what));
  if (!fields.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " must be a JSON object"));
  }
  ordered_json reasoning;
  for (const char* name : kReasoningFields) {
    if (reasoning.is_null() && fields.contains(name)) reasoning = fields[name];
  }
  ordered_json all;
  // The order of `transformers`, which templates may print.
  if (!reasoning.is_null()) all["thinking"] = reasoning;
  all["role"] = message.role;
  all["content"] = message.content;
  for (const auto& [name, value] : fields.items()) all[name] = value;
  if (!reasoning.is_null()) all["reasoning_content"] = std::move(reasoning);
  return all;
}

}  // namespace

void ChatTemplate::Free::operator()(BastionHubTemplate* handle) const {
  bastion_hub_template_free(handle);
}

absl::StatusOr<ChatTemplate> ChatTemplate::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(const JsonObject config,
                   JsonObject::ReadOptional(absl::StrCat(folder, "/tokenizer_config.json")));
  ASSIGN_OR_RETURN(Sources sources, ReadSources(folder, config));
  ASSIGN_OR_RETURN(NamedTokens special, NamedTokens::Read(folder, config));
  const auto compile = [&](const std::string& source, Handle* handle) {
    BastionHubTemplate* raw = nullptr;
    RETURN_IF_ERROR(Annotate(Take(bastion_hub_template_new(Borrow(source), &raw)),
                             absl::StrCat("chat template of ", folder)));
    handle->reset(raw);
    return absl::OkStatus();
  };
  ChatTemplate chat;
  RETURN_IF_ERROR(compile(sources.plain, &chat.handle_));
  if (sources.tools != sources.plain) {
    RETURN_IF_ERROR(compile(sources.tools, &chat.tool_handle_));
  }
  chat.tool_source_ = std::move(sources.tools);
  chat.variables_ = std::move(special.texts);
  return chat;
}

absl::StatusOr<std::string> ChatTemplate::Render(absl::Span<const ChatMessage> messages,
                                                 bool add_generation_prompt,
                                                 std::string_view arguments, std::string_view tools,
                                                 absl::Time now) const {
  ordered_json variables = variables_;
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  RETURN_IF_ERROR(AddArguments(arguments, &variables));
  RETURN_IF_ERROR(AddTools(tools, &variables));
  variables["add_generation_prompt"] = add_generation_prompt;
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    ASSIGN_OR_RETURN(list.emplace_back(), MessageJson(messages[i], i));
  }
  variables["messages"] = std::move(list);
  const bool has_tools = !variables["tools"].is_null();
  const BastionHubTemplate* handle =
      has_tools && tool_handle_ != nullptr ? tool_handle_.get() : handle_.get();
  const std::string text = variables.dump();
  BastionHubText rendered;
  RETURN_IF_ERROR(Annotate(
      Take(bastion_hub_template_render(handle, Borrow(text), absl::ToUnixMicros(now), &rendered)),
      "the chat template rejected the conversation"));
  return Take(rendered);
}

}  // namespace bastion::hub
