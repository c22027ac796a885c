// Parameters of OpenAI's API, and of vLLM, that constrain the text of the answer. The functions
// return INVALID_ARGUMENT, for clients, if the value has another form. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_OPENAI_OPENAI_CONSTRAINT_H_
#define BASTION_ORCHESTRATOR_OPENAI_OPENAI_CONSTRAINT_H_

#include "absl/status/status.h"
#include "orchestrator/openai/json_argument.h"
#include "orchestrator/openai/openai_request.h"

namespace bastion {

// response_format: text, json_object or json_schema.
[[nodiscard]] absl::Status SetResponseFormat(const JsonArgument& argument, OpenAiRequest* request);
// structured_outputs, as vLLM names them: json, regex, grammar or choice.
[[nodiscard]] absl::Status SetStructuredOutputs(const JsonArgument& argument,
                                                OpenAiRequest* request);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_OPENAI_CONSTRAINT_H_
