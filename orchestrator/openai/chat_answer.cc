#include "orchestrator/openai/chat_answer.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/hub/detokenizer.h"

namespace bastion {
namespace {

// The length that Mistral's templates require.
constexpr int kIdCharacters = 9;

std::optional<ToolCallReader> ReaderFor(const OpenAiRequest& request, ToolFormat format) {
  if (request.tools.empty()) return std::nullopt;
  ToolCallReader::Options options = {.format = format, .parallel = request.parallel_tool_calls};
  for (const Tool& tool : request.tools) options.names.insert(tool.name);
  return ToolCallReader(std::move(options));
}

// The id of a call. It depends on nothing else, so that all policies give the same ones.
std::string CallId(const std::string& answer, int call, ToolFormat format) {
  constexpr absl::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a.
  for (const unsigned char byte : absl::StrCat(answer, "/", call)) {
    hash = (hash ^ byte) * 0x100000001b3;
  }
  std::string id = format == ToolFormat::kMistral ? "" : "call_";
  for (int i = 0; i < kIdCharacters; ++i) {
    id += kLetters[hash % kLetters.size()];
    hash /= kLetters.size();
  }
  return id;
}

}  // namespace

ChatAnswer::ChatAnswer(const OpenAiRequest& request, const AnswerForm& form, const std::string& id,
                       const hub::Tokenizer* tokenizer)
    : id_(id),
      format_(form.tools),
      tokenizer_(tokenizer),
      reasoning_(form.reasoning),
      reader_(ReaderFor(request, form.tools)) {}

ToolCallText ChatAnswer::ReadCalls(const std::string& text, bool at_end) {
  if (!reader_) return {text, {}};
  ToolCallText read = reader_->Push(text);
  if (!at_end) return read;
  ToolCallText last = reader_->Finish();
  read.content += last.content;
  for (ToolCallDelta& call : last.calls) read.calls.push_back(std::move(call));
  return read;
}

void ChatAnswer::CountReasoning(const std::vector<TokenId>& tokens, bool was_reasoning) {
  if (!was_reasoning) return;
  first_tokens_.insert(first_tokens_.end(), tokens.begin(), tokens.end());
  if (!reasoning_.has_reasoning()) return;
  reasoning_tokens_ = static_cast<int>(first_tokens_.size());
  if (reasoning_.reading()) return;
  hub::Detokenizer detokenizer(*tokenizer_);
  std::string text;
  for (size_t i = 0; i < first_tokens_.size(); ++i) {
    text += detokenizer.Push({first_tokens_[i]});
    if (!absl::StrContains(text, kThinkEnd)) continue;
    reasoning_tokens_ = static_cast<int>(i + 1);
    break;
  }
  first_tokens_.clear();
}

ChatAnswer::Json ChatAnswer::CallDelta(const ToolCallDelta& call) {
  if (call.name.empty()) {
    std::string& arguments = calls_[call.index]["function"]["arguments"].get_ref<std::string&>();
    arguments += call.arguments;
    return {{"index", call.index}, {"function", {{"arguments", call.arguments}}}};
  }
  calls_.push_back({{"id", CallId(id_, call.index, format_)},
                    {"type", "function"},
                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  Json delta = {{"index", call.index}};
  delta.update(calls_.back());
  return delta;
}

ChatAnswer::Json ChatAnswer::Push(const OutputDelta& delta) {
  const bool was_reasoning = reasoning_.reading();
  ReasoningText read = reasoning_.Push(delta.text);
  if (delta.end) {
    const ReasoningText last = reasoning_.Finish();
    read.reasoning += last.reasoning;
    read.rest += last.rest;
  }
  CountReasoning(delta.tokens, was_reasoning);
  const ToolCallText text = ReadCalls(read.rest, delta.end.has_value());
  reasoning_text_ += read.reasoning;
  content_ += text.content;
  Json fields = Json::object();
  if (!read.reasoning.empty()) fields["reasoning_content"] = read.reasoning;
  if (!text.content.empty()) fields["content"] = text.content;
  for (const ToolCallDelta& call : text.calls) fields["tool_calls"].push_back(CallDelta(call));
  return fields;
}

ChatAnswer::Json ChatAnswer::Message() const {
  Json message = {{"role", "assistant"}, {"content", content_}, {"refusal", nullptr}};
  if (has_calls() && content_.empty()) message["content"] = nullptr;
  if (!reasoning_text_.empty()) message["reasoning_content"] = reasoning_text_;
  if (has_calls()) message["tool_calls"] = calls_;
  return message;
}

}  // namespace bastion
