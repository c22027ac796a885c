// ChatAnswer: turns the output of an answer to a chat into the fields of OpenAI's messages and
// deltas: reasoning_content, content and tool_calls. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_OPENAI_CHAT_ANSWER_H_
#define BASTION_ORCHESTRATOR_OPENAI_CHAT_ANSWER_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/hub/tokenizer.h"
#include "orchestrator/openai/openai_request.h"
#include "orchestrator/openai/reasoning_reader.h"
#include "orchestrator/openai/tool_call_reader.h"
#include "orchestrator/schedule/request_stream.h"

namespace bastion {

// How the answers of a call are written.
struct AnswerForm {
  ToolFormat tools = ToolFormat::kHermes;
  ReasoningStart reasoning = ReasoningStart::kNone;
};

class ChatAnswer {
 public:
  using Json = nlohmann::ordered_json;

  // `id` is the same for no two answers; the ids of its calls depend on it. `tokenizer` must
  // outlive this object.
  ChatAnswer(const OpenAiRequest& request, const AnswerForm& form, const std::string& id,
             const hub::Tokenizer* tokenizer);

  // Adds the output. Returns the fields that it adds to a delta.
  [[nodiscard]] Json Push(const OutputDelta& delta);
  // The fields of the whole message.
  [[nodiscard]] Json Message() const;

  [[nodiscard]] bool has_calls() const { return !calls_.empty(); }
  // Tokens of the reasoning and its tags, so far.
  [[nodiscard]] int reasoning_tokens() const { return reasoning_tokens_; }

 private:
  // What the reader of calls makes of text after the reasoning.
  [[nodiscard]] ToolCallText ReadCalls(const std::string& text, bool at_end);
  // Counts the tokens of a delta whose text `reasoning_` has read.
  void CountReasoning(const std::vector<TokenId>& tokens, bool was_reasoning);
  [[nodiscard]] Json CallDelta(const ToolCallDelta& call);

  const std::string id_;
  const ToolFormat format_;
  const hub::Tokenizer* const tokenizer_;
  ReasoningReader reasoning_;
  std::optional<ToolCallReader> reader_;  // Nullopt: the request has no tools.
  std::vector<TokenId> first_tokens_;     // Those of the reasoning, as far as it is not counted.
  int reasoning_tokens_ = 0;
  std::string reasoning_text_, content_;
  std::vector<Json> calls_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_CHAT_ANSWER_H_
