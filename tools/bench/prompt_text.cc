#include "tools/bench/prompt_text.h"

#include "common/base/status.h"

namespace bastion {

absl::Status PromptText::LoadTokenizer() {
  if (tokenizer_.has_value()) return absl::OkStatus();
  ASSIGN_OR_RETURN(tokenizer_, hub::Tokenizer::Load(folder_));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> PromptText::Encode(std::string_view text) {
  RETURN_IF_ERROR(LoadTokenizer());
  return tokenizer_->Encode(text, /*add_special=*/true);
}

absl::StatusOr<std::vector<TokenId>> PromptText::EncodeChat(
    absl::Span<const hub::ChatMessage> messages, std::string_view template_args) {
  RETURN_IF_ERROR(LoadTokenizer());
  if (!chat_template_.has_value()) {
    ASSIGN_OR_RETURN(chat_template_, hub::ChatTemplate::Load(folder_));
  }
  ASSIGN_OR_RETURN(const std::string text,
                   chat_template_->Render(messages, /*add_generation_prompt=*/true, template_args));
  return tokenizer_->Encode(text, /*add_special=*/false);
}

absl::StatusOr<std::string> PromptText::Decode(absl::Span<const TokenId> tokens) {
  RETURN_IF_ERROR(LoadTokenizer());
  return tokenizer_->Decode(tokens, /*skip_special=*/true);
}

}  // namespace bastion
