// ChatTemplate: formats a conversation as the text that the model expects.
//
// The template is Jinja, rendered with the settings, filters and functions of `transformers`,
// without strftime_now: the text must depend on the messages alone.
//
// Thread-safe: immutable after Load.
#ifndef BASTION_COMMON_HUB_CHAT_TEMPLATE_H_
#define BASTION_COMMON_HUB_CHAT_TEMPLATE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

struct BastionHubTemplate;

namespace bastion::hub {

struct ChatMessage {
  std::string role;  // A role that the template supports, e.g. "system", "user", "assistant".
  std::string content;
};

class ChatTemplate {
 public:
  // Loads folder/chat_template.jinja or, without that file, `chat_template` of
  // folder/tokenizer_config.json. If that is a list, loads the entry named "default". NOT_FOUND if
  // there is no template, INVALID_ARGUMENT if it does not parse.
  [[nodiscard]] static absl::StatusOr<ChatTemplate> Load(const std::string& folder);

  // Returns the text of `messages`. With `add_generation_prompt`, it ends where the assistant's
  // answer begins. `arguments` is a JSON object: further variables that the template may read, e.g.
  // {"enable_thinking": false}. INVALID_ARGUMENT if a message is not UTF-8, if `arguments` is not
  // an object, is nested deeper than 64 levels or sets a variable of the conversation, or if the
  // template rejects the conversation.
  [[nodiscard]] absl::StatusOr<std::string> Render(absl::Span<const ChatMessage> messages,
                                                   bool add_generation_prompt,
                                                   std::string_view arguments = "{}") const;

 private:
  struct Free {
    void operator()(BastionHubTemplate* handle) const;
  };
  using Handle = std::unique_ptr<BastionHubTemplate, Free>;
  using Variables = std::map<std::string, std::string>;

  ChatTemplate(Handle handle, Variables variables)
      : handle_(std::move(handle)), variables_(std::move(variables)) {}

  Handle handle_;
  Variables variables_;  // bos_token, eos_token … from tokenizer_config.json.
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_CHAT_TEMPLATE_H_
