// Chats of requests: the template, its arguments, and answers with reasoning.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/intake/reasoning.h"
#include "orchestrator/intake/request_parser.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

constexpr int kChatContext = 64;

// A template that could not be compiled kept the server from starting.
TEST(ServedModelTest, ABrokenChatTemplateDisablesChatsOnly) {
  const testing::TempFolder folder;
  folder.Write("config.json", testing::ServedConfigJson(kChatContext).dump());
  folder.Write("tokenizer.json", testing::ByteLevelTokenizerJson().dump());
  folder.Write("chat_template.jinja", "{% for %}");
  const auto model = ServedModel::Load(folder.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestParser parser(model->get(), *Policy::Parse("ar"));
  v1::GenerateRequest request;
  request.set_text("the");
  EXPECT_TRUE(parser.Parse(request).ok());
  request.mutable_chat()->add_messages()->set_role("user");
  const absl::Status refused = parser.Parse(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("this model's chat template cannot be used: chat template of"));
}

TEST(ServedModelTest, AChatTemplateEnablesChats) {
  const testing::TempFolder folder;
  folder.Write("config.json", testing::ServedConfigJson(kChatContext).dump());
  folder.Write("tokenizer.json", testing::ByteLevelTokenizerJson().dump());
  folder.Write("chat_template.jinja",
               "{% for m in messages %}<|im_start|>{{ m.content }}{% endfor %}");
  const auto model = ServedModel::Load(folder.path());
  ASSERT_TRUE(model.ok()) << model.status();
  v1::GenerateRequest request;
  v1::ChatMessage& message = *request.mutable_chat()->add_messages();
  message.set_role("user");
  message.set_content("the");
  const auto parsed = RequestParser(model->get(), *Policy::Parse("ar")).Parse(request);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->decode.prompt.front(), testing::kImStart);
}

TEST(ServedModelTest, TheChatTemplateReadsTheArgumentsOfTheRequest) {
  const testing::TempFolder folder;
  folder.Write("config.json", testing::ServedConfigJson(kChatContext).dump());
  folder.Write("tokenizer.json", testing::ByteLevelTokenizerJson().dump());
  folder.Write("chat_template.jinja",
               "{% if enable_thinking %}<|im_start|>{% else %}<|im_end|>{% endif %}");
  const auto model = ServedModel::Load(folder.path());
  ASSERT_TRUE(model.ok()) << model.status();
  const RequestParser parser(model->get(), *Policy::Parse("ar"));
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_role("user");
  request.mutable_chat()->set_template_args_json(R"({"enable_thinking": true})");
  EXPECT_EQ(parser.Parse(request)->decode.prompt, std::vector<TokenId>{testing::kImStart});
  auto& arguments = *request.mutable_chat()->mutable_template_args()->mutable_fields();
  EXPECT_TRUE(absl::IsInvalidArgument(parser.Parse(request).status())) << "both are set";
  request.mutable_chat()->clear_template_args_json();
  arguments["enable_thinking"].set_bool_value(true);
  const auto thinking = parser.Parse(request);
  ASSERT_TRUE(thinking.ok()) << thinking.status();
  EXPECT_EQ(thinking->decode.prompt, std::vector<TokenId>{testing::kImStart});
  arguments["enable_thinking"].set_bool_value(false);
  EXPECT_NE(parser.Parse(request)->decode.prompt, thinking->decode.prompt);
  arguments["messages"].set_string_value("x");
  EXPECT_TRUE(absl::IsInvalidArgument(parser.Parse(request).status()));
}

// ---- reasoning ----

// A request for a chat whose answer is an object with one boolean, after any reasoning.
v1::GenerateRequest ThinkingRequest() {
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_content("x");
  request.mutable_constraint()->set_json_schema(
      R"({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]})");
  request.mutable_constraint()->set_after_reasoning(true);
  return request;
}

// Whether the constraint of `request` allows `text`, and nothing after it.
bool IsAnswer(const ServedModel& model, const v1::GenerateRequest& request,
              const std::string& text) {
  const auto parsed = RequestParser(&model, *Policy::Parse("ar")).Parse(request);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  if (!parsed.ok()) return false;
  const auto state = *parsed->decode.constraint->Copy();
  const std::vector<TokenId> tokens = *model.tokenizer.Encode(text, /*add_special=*/false);
  for (const TokenId token : tokens) {
    if (!state->Push(token).ok()) return false;
  }
  return state->complete();
}

TEST(ReasoningTest, AConstraintHoldsForTheTextAfterTheReasoning) {
  const testing::ServedModelFixture may(512,
                                        "{% if x %}</think>{% endif %}{{ messages[0].content }}");
  const v1::GenerateRequest request = ThinkingRequest();
  EXPECT_TRUE(IsAnswer(may.model(), request, R"({"ok": true})"));
  EXPECT_TRUE(IsAnswer(may.model(), request, "<think>\n{1} < </thin\n</think>\n\n{\"ok\": true}"));
  EXPECT_TRUE(IsAnswer(may.model(), request, "<think></think>{\"ok\": false}"));
  EXPECT_FALSE(IsAnswer(may.model(), request, "<think>a</think>b"));
  EXPECT_FALSE(IsAnswer(may.model(), request, "<think>a</think></think>{\"ok\": false}"));
  EXPECT_FALSE(IsAnswer(may.model(), request, "hm</think>{\"ok\": false}"));
}

TEST(ReasoningTest, ThePromptMayBeginOrEndTheReasoning) {
  const testing::ServedModelFixture begun(512, "{# </think> #}{{ messages[0].content }}<think>\n");
  const v1::GenerateRequest request = ThinkingRequest();
  EXPECT_TRUE(IsAnswer(begun.model(), request, "hm\n</think>\n{\"ok\": false}"));
  EXPECT_FALSE(IsAnswer(begun.model(), request, R"({"ok": true})"));
  const testing::ServedModelFixture ended(512, "{{ messages[0].content }}<think>\n\n</think>\n\n");
  EXPECT_TRUE(IsAnswer(ended.model(), request, R"({"ok": true})"));
  EXPECT_FALSE(IsAnswer(ended.model(), request, "<think>a</think>{\"ok\": true}"));
  const testing::ServedModelFixture none(512, "{{ messages[0].content }}");
  EXPECT_FALSE(IsAnswer(none.model(), request, "<think>a</think>{\"ok\": true}"));
}

TEST(ReasoningTest, GrammarsWithSchemasAreConstraints) {
  const testing::ServedModelFixture may(512, "{# </think> #}{{ messages[0].content }}");
  v1::GenerateRequest request = ThinkingRequest();
  v1::SchemaGrammar& grammar = *request.mutable_constraint()->mutable_schema_grammar();
  grammar.set_grammar("start: \"<\" inner \">\"\n");
  (*grammar.mutable_json_schemas())["inner"] = R"({"enum": [1, 2]})";
  EXPECT_TRUE(IsAnswer(may.model(), request, "<2>"));
  EXPECT_TRUE(IsAnswer(may.model(), request, "<think>1</think><1>"));
  EXPECT_FALSE(IsAnswer(may.model(), request, "<3>"));
  const RequestParser parser(&may.model(), *Policy::Parse("ar"));
  (*grammar.mutable_json_schemas())["Inner"] = "{}";
  EXPECT_THAT(std::string(parser.Parse(request).status().message()),
              HasSubstr("a rule has a name"));
  grammar.mutable_json_schemas()->clear();
  grammar.set_grammar("start: %json {}");
  EXPECT_THAT(std::string(parser.Parse(request).status().message()),
              HasSubstr("%json is not supported"));
  request.mutable_constraint()->set_regex("a");
  EXPECT_THAT(std::string(parser.Parse(request).status().message()), HasSubstr("regex"));
}

}  // namespace
}  // namespace bastion
