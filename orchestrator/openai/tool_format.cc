#include "orchestrator/openai/tool_format.h"

#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace bastion {
namespace {

// JSON and Lark quote strings in the same way.
std::string Quoted(const std::string& text) { return nlohmann::json(text).dump(); }

bool IsSpecial(absl::string_view marker, const hub::Tokenizer& tokenizer) {
  const auto found = tokenizer.FindSpecial(std::string(marker));
  return found.ok() && *found == marker;
}

// The rule `call`: the object that calls one of the tools.
ToolCallGrammar CallRule(const std::vector<Tool>& tools, const std::string& arguments) {
  ToolCallGrammar grammar;
  std::vector<std::string> calls;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string rule = absl::StrCat("arguments_", i);
    const std::string begin =
        absl::StrCat("{\"name\": ", Quoted(tools[i].name), ", ", Quoted(arguments), ": ");
    calls.push_back(absl::StrCat(Quoted(begin), " ", rule, " \"}\""));
    grammar.schemas[rule] = tools[i].schema;
  }
  grammar.rules = absl::StrCat("call: ", absl::StrJoin(calls, " | "), "\n");
  return grammar;
}

// The rule `calls`: one `item`, or several with `separator` between them.
std::string CallsRule(const std::string& item, const std::string& separator, bool parallel) {
  if (!parallel) return item;
  return absl::StrCat(item, " (", Quoted(separator), " ", item, ")*");
}

}  // namespace

absl::StatusOr<ToolFormat> ParseToolFormat(absl::string_view name) {
  if (name == "hermes") return ToolFormat::kHermes;
  if (name == "llama") return ToolFormat::kLlama;
  if (name == "mistral") return ToolFormat::kMistral;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is not a tool format; use hermes, llama or mistral"));
}

ToolFormat ToolFormatOf(absl::string_view chat_template) {
  if (absl::StrContains(chat_template, kHermesBegin)) return ToolFormat::kHermes;
  if (absl::StrContains(chat_template, kMistralTag)) return ToolFormat::kMistral;
  if (absl::StrContains(chat_template, "ipython") || absl::StrContains(chat_template, kLlamaTag)) {
    return ToolFormat::kLlama;
  }
  return ToolFormat::kHermes;
}

ToolCallGrammar MakeToolCallGrammar(ToolFormat format, const std::vector<Tool>& tools,
                                    bool parallel, const hub::Tokenizer& tokenizer) {
  const bool is_llama = format == ToolFormat::kLlama;
  ToolCallGrammar grammar = CallRule(tools, is_llama ? "parameters" : "arguments");
  std::string calls;
  switch (format) {
    case ToolFormat::kHermes:
      calls = CallsRule("marked", "\n", parallel);
      grammar.rules +=
          IsSpecial(kHermesBegin, tokenizer)
              ? "marked: call\n"
              : absl::StrCat("marked: \"", kHermesBegin, "\\n\" call \"\\n", kHermesEnd, "\"\n");
      break;
    case ToolFormat::kLlama:
      calls = CallsRule("call", "; ", parallel);
      break;
    case ToolFormat::kMistral:
      calls = absl::StrCat("\"", IsSpecial(kMistralTag, tokenizer) ? "" : kMistralTag, "[\" ",
                           CallsRule("call", ", ", parallel), " \"]\"");
      break;
  }
  grammar.rules = absl::StrCat("calls: ", calls, "\n", grammar.rules);
  return grammar;
}

}  // namespace bastion
