#include "common/hub/chat_template.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/ffi.h"
#include "common/hub/json_file.h"
#include "common/hub/rust_boundary.h"
#include "common/hub/utf8.h"

namespace bastion::hub {
namespace {

using nlohmann::json;

constexpr int kMaxArgumentDepth = 64;  // Limit for nested objects and lists.
constexpr const char* kTokenNames[] = {"bos_token", "eos_token", "unk_token", "pad_token"};

// A token is a string, or an object with the string in "content".
std::map<std::string, std::string> TokenTexts(const JsonObject& config) {
  std::map<std::string, std::string> texts;
  for (const char* name : kTokenNames) {
    const json* token = config.Find(name);
    if (token != nullptr && token->is_object()) {
      const auto content = token->find("content");
      token = content == token->end() ? nullptr : &*content;
    }
    if (token != nullptr && token->is_string()) texts[name] = token->get<std::string>();
  }
  return texts;
}

// The template in tokenizer_config.json: a string, or a list of {name, template}.
absl::StatusOr<std::string> InlineTemplate(const JsonObject& config) {
  const json* found = config.Find("chat_template");
  if (found != nullptr && found->is_string()) return found->get<std::string>();
  if (found != nullptr && found->is_array()) {
    for (const json& entry : *found) {
      if (entry.is_object() && entry.value("name", json()) == "default" &&
          entry.value("template", json()).is_string()) {
        return entry["template"].get<std::string>();
      }
    }
  }
  if (found != nullptr) return config.KeyError("chat_template", "has no default template");
  return absl::NotFoundError(
      absl::StrCat(config.origin(),
                   ": no 'chat_template', and no chat_template.jinja in its folder; this "
                   "checkpoint does not support chat: send a plain prompt"));
}

absl::StatusOr<std::string> ReadSource(const std::string& folder, const JsonObject& config) {
  absl::StatusOr<std::string> file = ReadTextFile(absl::StrCat(folder, "/chat_template.jinja"));
  if (!absl::IsNotFound(file.status())) return file;
  return InlineTemplate(config);
}

// Adds the variables of the JSON object `arguments`.
absl::Status AddArguments(std::string_view arguments, nlohmann::ordered_json* variables) {
  bool too_deep = false;
  // Stops before nesting overflows the stack of a function that follows it.
  const auto check_depth = [&](int depth, auto, auto&) {
    too_deep = too_deep || depth > kMaxArgumentDepth;
    return !too_deep;
  };
  const auto parsed =
      nlohmann::ordered_json::parse(arguments, check_depth, /*allow_exceptions=*/false);
  if (too_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat("the arguments of the chat template are nested deeper than ",
                     kMaxArgumentDepth, " levels"));
  }
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

}  // namespace

void ChatTemplate::Free::operator()(BastionHubTemplate* handle) const {
  bastion_hub_template_free(handle);
}

absl::StatusOr<ChatTemplate> ChatTemplate::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(const JsonObject config,
                   JsonObject::ReadOptional(absl::StrCat(folder, "/tokenizer_config.json")));
  ASSIGN_OR_RETURN(const std::string source, ReadSource(folder, config));
  BastionHubTemplate* raw = nullptr;
  RETURN_IF_ERROR(Annotate(Take(bastion_hub_template_new(Borrow(source), &raw)),
                           absl::StrCat("chat template of ", folder)));
  return ChatTemplate(Handle(raw), TokenTexts(config));
}

absl::StatusOr<std::string> ChatTemplate::Render(absl::Span<const ChatMessage> messages,
                                                 bool add_generation_prompt,
                                                 std::string_view arguments) const {
  nlohmann::ordered_json variables = variables_;
  RETURN_IF_ERROR(AddArguments(arguments, &variables));
  variables["add_generation_prompt"] = add_generation_prompt;
  auto& list = variables["messages"] = nlohmann::ordered_json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    RETURN_IF_ERROR(CheckUtf8(message.role, absl::StrCat("the role of message ", i)));
    RETURN_IF_ERROR(CheckUtf8(message.content, absl::StrCat("the content of message ", i)));
    list.push_back({{"role", message.role}, {"content", message.content}});
  }
  const std::string text = variables.dump();
  BastionHubText rendered;
  RETURN_IF_ERROR(
      Annotate(Take(bastion_hub_template_render(handle_.get(), Borrow(text), &rendered)),
               "the chat template rejected the conversation"));
  return Take(rendered);
}

}  // namespace bastion::hub
