// PromptText: converts texts and conversations to tokens, with the tokenizer and the chat template
// of a checkpoint. Loads each of them at its first use, because prompts may be token ids.
// Thread-compatible.
#ifndef BASTION_TOOLS_BENCH_PROMPT_TEXT_H_
#define BASTION_TOOLS_BENCH_PROMPT_TEXT_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hub/chat_template.h"
#include "common/hub/tokenizer.h"

namespace bastion {

class PromptText {
 public:
  explicit PromptText(std::string folder) : folder_(std::move(folder)) {}

  // The errors of the three calls below: those of hub::Tokenizer and hub::ChatTemplate.
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text);
  // The tokens up to the place where the assistant's answer begins. `template_args`: see
  // hub::ChatTemplate::Render.
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> EncodeChat(
      absl::Span<const hub::ChatMessage> messages, std::string_view template_args);
  // The text of an answer, without special tokens.
  [[nodiscard]] absl::StatusOr<std::string> Decode(absl::Span<const TokenId> tokens);

 private:
  [[nodiscard]] absl::Status LoadTokenizer();

  const std::string folder_;
  std::optional<hub::Tokenizer> tokenizer_;
  std::optional<hub::ChatTemplate> chat_template_;
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_PROMPT_TEXT_H_
