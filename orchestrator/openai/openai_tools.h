// The parameters of OpenAI's API about tools, and what they mean for a request: the variables of
// the chat template, and the constraint of the answer. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_OPENAI_OPENAI_TOOLS_H_
#define BASTION_ORCHESTRATOR_OPENAI_OPENAI_TOOLS_H_

#include "absl/status/status.h"
#include "orchestrator/intake/served_model.h"
#include "orchestrator/openai/json_argument.h"
#include "orchestrator/openai/openai_request.h"

namespace bastion {

// tools: functions that the model may call.
[[nodiscard]] absl::Status SetTools(const JsonArgument& argument, OpenAiRequest* request);
// tool_choice: "none", "auto", "required", or a function.
[[nodiscard]] absl::Status SetToolChoice(const JsonArgument& argument, OpenAiRequest* request);
// parallel_tool_calls: whether an answer may call several.
[[nodiscard]] absl::Status SetParallelToolCalls(const JsonArgument& argument,
                                                OpenAiRequest* request);

// Checks what concerns several of them, when all parameters are set.
[[nodiscard]] absl::Status CompleteTools(OpenAiRequest* request);

// The fields of a message for the chat template, which are not its role and content.
[[nodiscard]] absl::Status SetMessageField(const std::string& name, const JsonArgument& field,
                                           nlohmann::ordered_json* fields);

// Constrains the answers of `request`: to calls if the client requires one, and after the reasoning
// if `model` thinks.
void ConstrainAnswers(const ServedModel& model, ToolFormat format, OpenAiRequest* request);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_OPENAI_TOOLS_H_
