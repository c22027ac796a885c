// The requests of OpenAI's API for completions and chats, as requests of the public API
// (generation.proto). Parameters that other servers have added have their names, e.g. top_k and
// ignore_eos of vLLM. docs/openai.md lists all of them. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_OPENAI_OPENAI_REQUEST_H_
#define BASTION_ORCHESTRATOR_OPENAI_OPENAI_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bastion/v1/generation.pb.h"
#include "orchestrator/openai/tool_format.h"

namespace bastion {

enum class OpenAiKind { kCompletion, kChat };
// Whether the answer may or must call a tool.
enum class ToolChoice { kNone, kAuto, kRequired };

struct OpenAiRequest {
  OpenAiKind kind = OpenAiKind::kCompletion;
  v1::GenerateRequest generate;
  // One request for each prompt after the first one, with the parameters of `generate`.
  std::vector<v1::GenerateRequest> other_prompts;
  bool stream = false;
  bool stream_usage = false;  // The stream ends with the usage.
  std::string user;           // Whom the request is for, as the client says. May be empty.
  std::vector<Tool> tools;    // Those that the answer may call.
  ToolChoice tool_choice = ToolChoice::kAuto;
  bool parallel_tool_calls = true;
  // The parameter that has the constraint.
  const char* constraint_parameter = "response_format";
  // ---- until the request is complete ----
  bool logprobs = false;  // The chat asks for log-probabilities.
  bool has_max_completion_tokens = false;
  std::optional<uint64_t> best_of;
  std::string chosen_tool;  // The name in tool_choice.
};

// Parses a body. INVALID_ARGUMENT, for clients, with the name of the parameter if it is unknown,
// not supported, or of a wrong type. RequestParser checks the values. A parameter that is null
// counts as absent.
[[nodiscard]] absl::StatusOr<OpenAiRequest> ParseOpenAiRequest(OpenAiKind kind,
                                                               const std::string& body);

// The parameter of `request` that became `field`, a field of GenerateRequest that an error names.
[[nodiscard]] std::string OpenAiField(const OpenAiRequest& request, const std::string& field);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_OPENAI_REQUEST_H_
