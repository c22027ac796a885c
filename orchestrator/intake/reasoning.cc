#include "orchestrator/intake/reasoning.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

// Tokens at the end of a prompt that may spell a tag and line breaks.
constexpr size_t kTailTokens = 32;

constexpr char kStartRule[] = "start:";
constexpr char kAnswerRule[] = "answer_";
// The reasoning ends with the first end tag.
constexpr char kReasoningRules[] = R"(reasoning_: REASONING_ LINES_?
REASONING_: /(?s:.*)<\/think>/ & ~/(?s:.*)<\/think>(?s:.+)/
LINES_: /\n+/
)";

}  // namespace

ReasoningStart ReasoningStartOf(const ServedModel& model, const std::vector<TokenId>& prompt) {
  if (!model.chat_template || !absl::StrContains(model.chat_template->tool_source(), kThinkEnd)) {
    return ReasoningStart::kNone;
  }
  const size_t tail = std::min(prompt.size(), kTailTokens);
  const std::string end =
      model.tokenizer.Decode({prompt.data() + prompt.size() - tail, tail}, /*skip_special=*/false)
          .value_or("");
  const absl::string_view text = absl::StripTrailingAsciiWhitespace(end);
  if (absl::EndsWith(text, kThinkEnd)) return ReasoningStart::kNone;
  return absl::EndsWith(text, kThinkBegin) ? ReasoningStart::kHasBegun : ReasoningStart::kMayBegin;
}

v1::SchemaGrammar AfterReasoning(const v1::Constraint& constraint, ReasoningStart start) {
  v1::SchemaGrammar after = constraint.schema_grammar();
  std::string rules = after.grammar();
  if (constraint.has_json_schema()) {
    (*after.mutable_json_schemas())[kAnswerRule] = constraint.json_schema();
  } else if (absl::StartsWith(rules, kStartRule)) {
    rules.replace(0, sizeof(kStartRule) - 1, absl::StrCat(kAnswerRule, ":"));
  }
  std::string& grammar = *after.mutable_grammar();
  switch (start) {
    case ReasoningStart::kNone:
      grammar = "start: answer_\n";
      break;
    case ReasoningStart::kMayBegin:
      grammar = absl::StrCat("start: \"<think>\" reasoning_ answer_ | answer_\n", kReasoningRules);
      break;
    case ReasoningStart::kHasBegun:
      grammar = absl::StrCat("start: reasoning_ answer_\n", kReasoningRules);
      break;
  }
  absl::StrAppend(&grammar, rules, "\n");
  return after;
}

}  // namespace bastion
