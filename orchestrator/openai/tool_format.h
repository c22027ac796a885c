// ToolFormat: how a model writes calls of tools in its answer. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_OPENAI_TOOL_FORMAT_H_
#define BASTION_ORCHESTRATOR_OPENAI_TOOL_FORMAT_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/hub/tokenizer.h"

namespace bastion {

// What marks calls in the formats below.
inline constexpr absl::string_view kHermesBegin = "<tool_call>";
inline constexpr absl::string_view kHermesEnd = "</tool_call>";
inline constexpr absl::string_view kLlamaTag = "<|python_tag|>";
inline constexpr absl::string_view kMistralTag = "[TOOL_CALLS]";

enum class ToolFormat {
  // <tool_call>\n{"name": "f", "arguments": {…}}\n</tool_call>, once per call: Hermes, Qwen.
  kHermes,
  // {"name": "f", "parameters": {…}}, with "; " between calls: Llama 3.
  kLlama,
  // [TOOL_CALLS][{"name": "f", "arguments": {…}}, …]: Mistral.
  kMistral,
};

// Parses "hermes", "llama" or "mistral".
[[nodiscard]] absl::StatusOr<ToolFormat> ParseToolFormat(absl::string_view name);
// The format that a chat template shows to the model. Hermes if it shows none.
[[nodiscard]] ToolFormat ToolFormatOf(absl::string_view chat_template);

// A tool that a request offers.
struct Tool {
  std::string name;
  std::string schema;  // The JSON schema of its arguments.
};

// A part of a Lark grammar.
struct ToolCallGrammar {
  std::string rules;                           // The first one is `calls`.
  std::map<std::string, std::string> schemas;  // Its rules that are JSON schemas, by name.
};

// The rules of answers that call one of `tools`, or if `parallel`, one or more. Markers that are
// special tokens are not part of them: they are not part of the text either.
[[nodiscard]] ToolCallGrammar MakeToolCallGrammar(ToolFormat format, const std::vector<Tool>& tools,
                                                  bool parallel, const hub::Tokenizer& tokenizer);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_TOOL_FORMAT_H_
