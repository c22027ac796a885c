#include "common/hub/chat_template.h"

#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

// A short template with the constructs of Qwen3's template: namespace, reversed slices, Python
// string methods, tests, and blocks on separate lines.
constexpr const char* kQwenStyle = R"({%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>')) %}
        {%- set ns.last_query_index = index %}
        {%- break %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == "user" %}
        {{- '<|im_start|>user\n' + content + '<|im_end|>\n' }}
    {%- elif message.role == "assistant" %}
        {%- if '</think>' in content and loop.index0 < ns.last_query_index %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\n' + content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %})";

class ChatTemplateTest : public ::testing::Test {
 protected:
  absl::StatusOr<ChatTemplate> Load(const json& tokenizer_config) {
    folder_.Write("tokenizer_config.json", tokenizer_config.dump());
    return ChatTemplate::Load(folder_.path());
  }
  // Renders `messages` with the template `source`.
  absl::StatusOr<std::string> Render(const std::string& source,
                                     const std::vector<ChatMessage>& messages) {
    const auto chat = Load({{"chat_template", source}, {"bos_token", "<s>"}});
    if (!chat.ok()) return chat.status();
    return chat->Render(messages, true);
  }
  TempFolder folder_;
};

TEST_F(ChatTemplateTest, RendersAQwenStyleConversation) {
  const auto chat = Load({{"chat_template", kQwenStyle}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::vector<ChatMessage> messages = {{"system", "Be brief."},
                                             {"user", "1+1?"},
                                             {"assistant", "<think>\nhm\n</think>\n\n2"},
                                             {"user", "日本 <b>&"}};
  EXPECT_EQ(*chat->Render(messages, true),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n1+1?<|im_end|>\n"
            "<|im_start|>assistant\n2<|im_end|>\n<|im_start|>user\n日本 <b>&<|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(*chat->Render({{"user", "x"}}, false), "<|im_start|>user\nx<|im_end|>\n");
}

TEST_F(ChatTemplateTest, ArgumentsAreVariablesOfTheTemplate) {
  const auto chat = Load({{"chat_template", kQwenStyle}, {"bos_token", "<s>"}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::vector<ChatMessage> messages = {{"user", "x"}};
  EXPECT_EQ(*chat->Render(messages, true, R"({"enable_thinking": false})"),
            "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
  EXPECT_EQ(*chat->Render(messages, true, R"({"enable_thinking": true})"),
            *chat->Render(messages, true));
}

TEST_F(ChatTemplateTest, ArgumentsMustBeAnObjectThatLeavesTheConversationAlone) {
  const auto chat = Load({{"chat_template", "{{ messages[0]['content'] }}"}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  const std::vector<ChatMessage> messages = {{"user", "x"}};
  for (const char* const text : {"", "[]", "3", "{", "{\"messages\": []}"}) {
    EXPECT_EQ(chat->Render(messages, true, text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_THAT(chat->Render(messages, true, R"({"messages": []})").status().message(),
              HasSubstr("messages"));
}

// Copying and printing JSON recurses, so nesting without a limit overflowed the stack.
TEST_F(ChatTemplateTest, RejectsArgumentsThatAreNestedTooDeeply) {
  const auto chat = Load({{"chat_template", "{{ a }}"}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  const auto nested = [&](int depth) {
    return chat->Render({{"user", "x"}}, true,
                        "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}");
  };
  EXPECT_TRUE(nested(40).ok()) << nested(40).status();
  const absl::Status status = nested(1'000'000).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("more than 64 levels"));
}

TEST_F(ChatTemplateTest, PrefersTheJinjaFileToTheConfig) {
  folder_.Write("chat_template.jinja", "file:{{ messages[0]['content'] }}");
  EXPECT_EQ(*Render("config", {{"user", "x"}}), "file:x");
}

TEST_F(ChatTemplateTest, TheTokenizerConfigIsOptional) {
  folder_.Write("chat_template.jinja", "[{{ bos_token }}]");
  const auto chat = ChatTemplate::Load(folder_.path());
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render({}, true), "[]");
}

TEST_F(ChatTemplateTest, UsesTheDefaultEntryOfAList) {
  const json tools = {{"name", "tool_use"}, {"template", "t"}};
  const json plain = {{"name", "default"}, {"template", "d"}};
  const auto chat = Load({{"chat_template", json::array({tools, plain})}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render({}, false), "d");
  EXPECT_THAT(Load({{"chat_template", json::array({tools, 3})}}).status().message(),
              AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("no default template")));
}

TEST_F(ChatTemplateTest, SpecialTokensMayBeStringsOrObjects) {
  const auto chat = Load({{"chat_template", "{{ bos_token }}{{ eos_token }}{{ pad_token }}"},
                          {"bos_token", "<s>"},
                          {"eos_token", {{"content", "</s>"}, {"lstrip", false}}},
                          {"pad_token", nullptr}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render({}, false), "<s></s>");
}

// Older checkpoints name their tokens only there.
TEST_F(ChatTemplateTest, SpecialTokensMayBeInTheMapOrInTheTokenizer) {
  folder_.Write(
      "special_tokens_map.json",
      R"({"bos_token": {"content": "<map>"}, "eos_token": "</map>", "pad_token": "<p>"})");
  const std::string source = "{{ bos_token }}|{{ eos_token }}|{{ pad_token }}|{{ unk_token }}";
  EXPECT_EQ(*Load({{"chat_template", source}})->Render({}, false), "<map>|</map>|<p>|");
  // A null of the first file says that there is none.
  EXPECT_EQ(*Load({{"chat_template", source}, {"bos_token", "<s>"}, {"eos_token", nullptr}})
                 ->Render({}, false),
            "<s>||<p>|");
  folder_.Write("special_tokens_map.json", "{}");
  folder_.Write("config.json", R"({"bos_token_id": 7, "eos_token_id": [8, 9]})");
  folder_.Write("tokenizer.json",
                R"({"added_tokens": [{"id": 7, "content": "<7>"}, {"id": 8, "content": "<8>"}]})");
  EXPECT_EQ(*Load({{"chat_template", source}})->Render({}, false), "<7>|<8>||");
}

TEST_F(ChatTemplateTest, ConversationsWithToolsMayHaveATemplateOfTheirOwn) {
  const json tools = {{"name", "tool_use"}, {"template", "{{ tools[0].a }}"}};
  const json plain = {{"name", "default"}, {"template", "{{ tools is none }}"}};
  const auto chat = Load({{"chat_template", json::array({tools, plain})}});
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(*chat->Render({}, false), "True");
  EXPECT_EQ(*chat->Render({}, false, "{}", R"([{"a": 3}])"), "3");
  EXPECT_EQ(*chat->Render({}, false, R"({"tools": [{"a": 4}]})"), "4");
  EXPECT_THAT(chat->Render({}, false, R"({"tools": []})", "[]").status().message(),
              HasSubstr("set twice"));
  EXPECT_THAT(chat->Render({}, false, "{}", "{}").status().message(), HasSubstr("JSON list"));
}

TEST_F(ChatTemplateTest, MessagesMayHaveFurtherFields) {
  const std::vector<ChatMessage> messages = {{"user", "x", R"({"z": 1.0, "a": [2]})"}};
  EXPECT_EQ(*Render("{{ messages | tojson }}", messages),
            R"([{"role": "user", "content": "x", "z": 1.0, "a": [2]}])");
  EXPECT_THAT(Render("x", {{"user", "x", "[]"}}).status().message(),
              HasSubstr("the fields of message 0 must be a JSON object"));
  std::string wide = "{";
  for (int i = 0; i < 1025; ++i) wide += "\"" + std::to_string(i) + "\": 0, ";
  EXPECT_THAT(Render("x", {{"user", "x", wide + "\"\": 0}"}}).status().message(),
              HasSubstr("more than 1024 names"));
}

TEST_F(ChatTemplateTest, TrimsBlocksLikeTransformers) {
  EXPECT_EQ(*Render("a\n  {% if true %}\nb\n  {% endif %}\nc\n", {}), "a\nb\nc");
}

TEST_F(ChatTemplateTest, ToJsonFormatsLikePython) {
  EXPECT_EQ(*Render("{{ messages | tojson }}", {{"user", "<é> 'q' \"d\"\n"}}),
            R"([{"role": "user", "content": "<é> 'q' \"d\"\n"}])");
}

TEST_F(ChatTemplateTest, AMissingTemplateIsReportedWithAdvice) {
  const absl::Status status = Load({{"bos_token", "<s>"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("tokenizer_config.json"), HasSubstr("send a plain prompt")));
  EXPECT_EQ(ChatTemplate::Load("/nowhere").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ChatTemplateTest, ATemplateThatDoesNotParseIsInvalid) {
  const absl::Status status = Load({{"chat_template", "a\n{% if %}"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(folder_.path()), HasSubstr("chat_template:2")));
}

TEST_F(ChatTemplateTest, ATemplateMayRejectTheConversation) {
  const absl::Status status =
      Render("{{ raise_exception('roles must alternate') }}", {{"user", "x"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("roles must alternate"));
}

TEST_F(ChatTemplateTest, AnEndlessTemplateIsStopped) {
  const std::string loop =
      "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
  EXPECT_THAT(Render(loop, {}).status().message(), HasSubstr("out of fuel"));
  EXPECT_FALSE(Render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", {}).ok());
}

TEST_F(ChatTemplateTest, RefusesMessagesThatAreNotUtf8) {
  EXPECT_THAT(Render("x", {{"user", "a\xFF"}}).status().message(),
              HasSubstr("the content of message 0 is not UTF-8 at byte 1"));
  EXPECT_THAT(Render("x", {{"\xFF", ""}}).status().message(), HasSubstr("the role of message 0"));
}

TEST_F(ChatTemplateTest, RefusesAJinjaFileThatIsNotUtf8) {
  folder_.Write("chat_template.jinja", "ab\xFF");
  EXPECT_THAT(ChatTemplate::Load(folder_.path()).status().message(), HasSubstr("from byte 2"));
}

}  // namespace
}  // namespace bastion::hub
