// Parameters of OpenAI's API that are the prompt. The functions return INVALID_ARGUMENT, for
// clients, if the value has another form. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_OPENAI_OPENAI_PROMPT_H_
#define BASTION_ORCHESTRATOR_OPENAI_OPENAI_PROMPT_H_

#include "absl/status/status.h"
#include "orchestrator/openai/json_argument.h"
#include "orchestrator/openai/openai_request.h"

namespace bastion {

// prompt: a text or token ids, or a list of these.
[[nodiscard]] absl::Status SetPrompt(const JsonArgument& argument, OpenAiRequest* request);
// messages: roles and texts.
[[nodiscard]] absl::Status SetMessages(const JsonArgument& argument, OpenAiRequest* request);
// chat_template_kwargs: further variables of the chat template.
[[nodiscard]] absl::Status SetTemplateArguments(const JsonArgument& argument,
                                                OpenAiRequest* request);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_OPENAI_PROMPT_H_
