// Messages with reasoning and calls, and the constraints of answers that must call a tool.
#include "orchestrator/openai/chat_answer.h"

#include <set>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/intake/request_parser.h"
#include "orchestrator/openai/openai_tools.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/support/hub_fixtures.h"

namespace bastion {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::ServedModelFixture;

constexpr char kTwoCalls[] =
    "<think>\nI need both.\n</think>\n\nLet me look.\n"
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 1}}\n</tool_call>\n"
    "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";

// Gives `answer` the tokens of `text`, `size` at a time. Returns the deltas.
std::vector<json> PushAll(const hub::Tokenizer& tokenizer, const std::string& text, size_t size,
                          ChatAnswer* answer) {
  const std::vector<TokenId> tokens = *tokenizer.Encode(text, /*add_special=*/false);
  std::vector<json> deltas;
  for (size_t at = 0; at < tokens.size(); at += size) {
    OutputDelta delta;
    const auto end = tokens.begin() + static_cast<ptrdiff_t>(std::min(at + size, tokens.size()));
    delta.tokens.assign(tokens.begin() + static_cast<ptrdiff_t>(at), end);
    delta.text = *tokenizer.Decode(delta.tokens, /*skip_special=*/true);
    if (at + size >= tokens.size()) delta.end.emplace();
    deltas.push_back(answer->Push(delta));
  }
  return deltas;
}

OpenAiRequest RequestWithTools() {
  OpenAiRequest request;
  request.kind = OpenAiKind::kChat;
  request.tools = {{"f", R"({"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}},
                             "required": ["n"], "additionalProperties": false,
                             "$defs": {"n": {"enum": [1, 2]}}})"},
                   {"g", R"({"type": "object", "additionalProperties": false})"}};
  return request;
}

TEST(ChatAnswerTest, AnAnswerBecomesReasoningContentAndCalls) {
  const hub::Tokenizer tokenizer = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  const OpenAiRequest request = RequestWithTools();
  std::set<std::string> messages;
  for (const size_t size : {1, 2, 5, 1000}) {
    ChatAnswer answer(request, {ToolFormat::kHermes, ReasoningStart::kMayBegin}, "id/0",
                      &tokenizer);
    std::string reasoning, content, arguments;
    for (const json& delta : PushAll(tokenizer, kTwoCalls, size, &answer)) {
      reasoning += delta.value("reasoning_content", "");
      content += delta.value("content", "");
      for (const json& call : delta.value("tool_calls", json::array())) {
        EXPECT_EQ(call.contains("id"), call["function"].contains("name"));
        arguments += call["function"]["arguments"].get<std::string>();
      }
    }
    EXPECT_EQ(reasoning, "I need both.");
    EXPECT_EQ(content, "Let me look.");
    EXPECT_EQ(arguments, R"({"n": 1}{})");
    // "<think>\nI need both.\n</think>" without three merges of "th" and two of "in".
    EXPECT_EQ(answer.reasoning_tokens(), 29 - 5) << size;
    EXPECT_TRUE(answer.has_calls());
    messages.insert(answer.Message().dump());
  }
  ASSERT_EQ(messages.size(), 1u) << "the message depends on the size of the deltas";
  const json message = json::parse(*messages.begin());
  EXPECT_EQ(message["reasoning_content"], "I need both.");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  EXPECT_EQ(message["tool_calls"][0]["function"]["name"], "f");
  EXPECT_NE(message["tool_calls"][0]["id"], message["tool_calls"][1]["id"]);
}

TEST(ChatAnswerTest, WithoutToolsAndReasoningTheTextIsTheContent) {
  const hub::Tokenizer tokenizer = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  const OpenAiRequest request;
  ChatAnswer answer(request, {}, "id", &tokenizer);
  PushAll(tokenizer, kTwoCalls, 3, &answer);
  EXPECT_EQ(answer.Message()["content"], kTwoCalls);
  EXPECT_FALSE(answer.has_calls());
  EXPECT_EQ(answer.reasoning_tokens(), 0);
}

TEST(ChatAnswerTest, IdsFitMistralsTemplates) {
  const hub::Tokenizer tokenizer = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  const OpenAiRequest request = RequestWithTools();
  ChatAnswer answer(request, {.tools = ToolFormat::kMistral}, "id", &tokenizer);
  PushAll(tokenizer, R"([TOOL_CALLS][{"name": "g", "arguments": {}}])", 4, &answer);
  EXPECT_EQ(answer.Message()["content"], nullptr);
  EXPECT_EQ(answer.Message()["tool_calls"][0]["id"].get<std::string>().size(), 9u);
}

// ---- constraints ----

class RequiredCallsTest : public ::testing::Test {
 protected:
  // Whether an answer of `format` may be `text`.
  bool IsAnswer(ToolFormat format, bool parallel, const std::string& text) {
    OpenAiRequest request = RequestWithTools();
    request.tool_choice = choice_;
    request.parallel_tool_calls = parallel;
    request.generate.set_text("x");
    if (!schema_.empty()) request.generate.mutable_constraint()->set_json_schema(schema_);
    ConstrainAnswers(model_.model(), format, &request);
    const auto parsed =
        RequestParser(&model_.model(), *Policy::Parse("ar")).Parse(request.generate);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (!parsed.ok()) return false;
    const auto state = *parsed->decode.constraint->Copy();
    const std::vector<TokenId> tokens = *model_.model().tokenizer.Encode(text, false);
    for (const TokenId token : tokens) {
      if (!state->Push(token).ok()) return false;
    }
    return state->complete() || state->Allowed()->contains(testing::kEndOfText);
  }

  const ServedModelFixture model_;
  ToolChoice choice_ = ToolChoice::kRequired;
  std::string schema_;
};

TEST_F(RequiredCallsTest, CallsAreValidInEachFormat) {
  const std::string hermes =
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 2}}\n</tool_call>";
  EXPECT_TRUE(IsAnswer(ToolFormat::kHermes, true, hermes));
  EXPECT_TRUE(IsAnswer(ToolFormat::kHermes, true, hermes + "\n" + hermes));
  EXPECT_TRUE(IsAnswer(ToolFormat::kHermes, false, hermes));
  EXPECT_FALSE(IsAnswer(ToolFormat::kHermes, false, hermes + "\n" + hermes));
  EXPECT_FALSE(IsAnswer(ToolFormat::kHermes, true, "text"));
  EXPECT_FALSE(IsAnswer(ToolFormat::kHermes, true,
                        "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"n\": 3}}\n</tool_call>"));
  EXPECT_FALSE(IsAnswer(ToolFormat::kHermes, true,
                        "<tool_call>\n{\"name\": \"h\", \"arguments\": {}}\n</tool_call>"));
  const std::string llama = R"({"name": "g", "parameters": {}})";
  EXPECT_TRUE(IsAnswer(ToolFormat::kLlama, false, llama));
  EXPECT_TRUE(IsAnswer(ToolFormat::kLlama, true, llama + "; " + llama));
  const std::string mistral =
      R"([TOOL_CALLS][{"name": "g", "arguments": {}}, {"name": "f", "arguments": {"n": 1}}])";
  EXPECT_TRUE(IsAnswer(ToolFormat::kMistral, true, mistral));
  EXPECT_FALSE(IsAnswer(ToolFormat::kMistral, false, mistral));
}

TEST_F(RequiredCallsTest, AnAnswerMayBeACallOrTheFormatThatWasAskedFor) {
  choice_ = ToolChoice::kAuto;
  schema_ = R"({"enum": ["yes"]})";
  EXPECT_TRUE(IsAnswer(ToolFormat::kHermes, true, "\"yes\""));
  EXPECT_TRUE(IsAnswer(ToolFormat::kHermes, true,
                       "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(IsAnswer(ToolFormat::kHermes, true, "\"no\""));
}

}  // namespace
}  // namespace bastion
