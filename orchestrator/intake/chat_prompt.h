// Conversations of requests: their text, and all texts in them. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_INTAKE_CHAT_PROMPT_H_
#define BASTION_ORCHESTRATOR_INTAKE_CHAT_PROMPT_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "bastion/v1/generation.pb.h"
#include "common/hub/chat_template.h"

namespace bastion {

// The error of a prompt in `field` that cannot become tokens, for clients. Always INVALID_ARGUMENT:
// the client cannot do better by trying again.
[[nodiscard]] absl::Status PromptError(absl::string_view field, const absl::Status& status);

// Returns the text of a conversation up to the assistant's answer. INVALID_ARGUMENT, for clients,
// with the name of the field.
[[nodiscard]] absl::StatusOr<std::string> RenderChat(const hub::ChatTemplate& chat_template,
                                                     const v1::ChatMessages& chat);

// Returns the texts of clients in a conversation that may reach the prompt, each with the name of
// its field. The names and strings of a JSON text are one text, with line breaks between them.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> TextsOfChat(
    const v1::ChatMessages& chat);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_CHAT_PROMPT_H_
