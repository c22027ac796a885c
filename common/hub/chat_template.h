// ChatTemplate: formats a conversation as the text that the model expects.
//
// The template is Jinja. It sees what `transformers` gives it: its settings, filters and functions,
// Python's methods, and the variables messages, tools, documents, add_generation_prompt and the
// special tokens. rust/src/chat.rs builds this environment.
//
// Thread-safe: immutable after Load.
#ifndef BASTION_COMMON_HUB_CHAT_TEMPLATE_H_
#define BASTION_COMMON_HUB_CHAT_TEMPLATE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

struct BastionHubTemplate;

namespace bastion::hub {

struct ChatMessage {
  std::string role;  // A role that the template supports, e.g. "system", "user", "assistant".
  std::string content;
  // Further fields, a JSON object, e.g. {"tool_calls": […]}. They may replace the content.
  std::string fields = "{}";
};

class ChatTemplate {
 public:
  // Loads folder/chat_template.jinja or, without that file, `chat_template` of
  // folder/tokenizer_config.json. If that is a list, loads the entry named "default", and the one
  // named "tool_use" for conversations with tools. NOT_FOUND if there is no template,
  // INVALID_ARGUMENT if it does not parse.
  [[nodiscard]] static absl::StatusOr<ChatTemplate> Load(const std::string& folder);

  // Returns the text of `messages`. With `add_generation_prompt`, it ends where the assistant's
  // answer begins. `arguments` is a JSON object: further variables that the template may read, e.g.
  // {"enable_thinking": false}. `tools` is a JSON list; empty: none. Only strftime_now reads `now`.
  // INVALID_ARGUMENT if a message is not UTF-8, if `arguments` or `tools` are of another type, are
  // nested deeper than 64 levels or set a variable of the conversation, or if the template rejects
  // the conversation.
  [[nodiscard]] absl::StatusOr<std::string> Render(absl::Span<const ChatMessage> messages,
                                                   bool add_generation_prompt,
                                                   std::string_view arguments = "{}",
                                                   std::string_view tools = "",
                                                   absl::Time now = absl::Now()) const;

  // The source of the template for conversations with tools. It shows in which format the model
  // calls tools.
  [[nodiscard]] const std::string& tool_source() const { return tool_source_; }

 private:
  struct Free {
    void operator()(BastionHubTemplate* handle) const;
  };
  using Handle = std::unique_ptr<BastionHubTemplate, Free>;
  using Variables = std::map<std::string, std::string>;

  ChatTemplate() = default;

  Handle handle_;
  Handle tool_handle_;  // Null: the same.
  std::string tool_source_;
  Variables variables_;  // bos_token, eos_token …
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_CHAT_TEMPLATE_H_
