// A checkpoint's chat template: the text a model was taught to see for a conversation.
//
// The template is Jinja, rendered with the settings, filters and functions that `transformers`
// gives it, except strftime_now: a prompt is a function of its messages alone.
//
// Thread-safe: immutable once loaded.
#ifndef BASTION_COMMON_HUB_CHAT_TEMPLATE_H_
#define BASTION_COMMON_HUB_CHAT_TEMPLATE_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

struct BastionHubTemplate;

namespace bastion::hub {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant": what the template knows.
  std::string content;
};

class ChatTemplate {
 public:
  // From folder/chat_template.jinja, else the `chat_template` of folder/tokenizer_config.json (the
  // one named "default" where it is a list). NOT_FOUND, with advice, where there is none;
  // INVALID_ARGUMENT where it does not parse.
  [[nodiscard]] static absl::StatusOr<ChatTemplate> Load(const std::string& folder);

  // INVALID_ARGUMENT where a message is not UTF-8 or the template refuses the conversation.
  // `add_generation_prompt` ends the text where the assistant's answer begins.
  [[nodiscard]] absl::StatusOr<std::string> Render(absl::Span<const ChatMessage> messages,
                                                   bool add_generation_prompt) const;

 private:
  struct Free {
    void operator()(BastionHubTemplate* handle) const;
  };
  using Handle = std::unique_ptr<BastionHubTemplate, Free>;
  using Variables = std::map<std::string, std::string>;

  ChatTemplate(Handle handle, Variables variables)
      : handle_(std::move(handle)), variables_(std::move(variables)) {}

  Handle handle_;
  Variables variables_;  // bos_token, eos_token … as tokenizer_config.json writes them.
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_CHAT_TEMPLATE_H_
