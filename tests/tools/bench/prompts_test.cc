#include "tools/bench/prompts.h"

#include <fstream>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/conversation.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(SyntheticPromptsTest, AreValidDistinctAndReproducible) {
  const auto prompts = SyntheticPrompts(100, 50, 3);
  const auto again = SyntheticPrompts(100, 50, 3);
  ASSERT_EQ(prompts.size(), 100u);
  std::set<std::vector<TokenId>> texts;
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(prompts[i].tokens, again[i].tokens);
    EXPECT_EQ(prompts[i].id, again[i].id);
    EXPECT_GE(prompts[i].tokens.size(), 2u);
    EXPECT_LE(prompts[i].tokens.size(), 40u);
    for (const TokenId token : prompts[i].tokens) EXPECT_TRUE(token >= 0 && token < 50);
    texts.insert(prompts[i].tokens);
  }
  EXPECT_GT(texts.size(), 90u);
}

TEST(SyntheticPromptsTest, SomeRepeatAPhrase) {
  int loops = 0;
  for (const BenchPrompt& prompt : SyntheticPrompts(60, 4096, 1)) {
    const std::set<TokenId> kinds(prompt.tokens.begin(), prompt.tokens.end());
    loops += kinds.size() <= 4 ? 1 : 0;
  }
  EXPECT_GE(loops, 30);
}

class PromptsTest : public ::testing::Test {
 protected:
  PromptsTest() {
    folder_.Write("tokenizer.json", testing::ByteLevelTokenizerJson().dump());
    folder_.Write("chat_template.jinja",
                  "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}"
                  "{% if enable_thinking is false %}no{% endif %}");
  }
  absl::StatusOr<std::vector<BenchPrompt>> Load(const std::string& lines,
                                                const std::string& arguments = "{}") {
    folder_.Write("prompts.jsonl", lines);
    return LoadPrompts(folder_.File("prompts.jsonl"), folder_.path(), arguments);
  }
  // The tokens of a text without special tokens are its bytes, here.
  std::vector<TokenId> Tokens(const std::string& text) {
    return (*Load(R"({"id": "x", "text": ")" + text + R"("})"))[0].tokens;
  }

  const testing::TempFolder folder_;
};

TEST_F(PromptsTest, AConversationIsFormattedByTheChatTemplate) {
  const auto prompts = Load(
      R"({"id": "a", "dataset": "chats", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}
{"id": "b", "turns": ["one", "two"]}
{"id": "c", "turns": ["one"], "template_args": {"enable_thinking": false}}
)");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ((*prompts)[0].dataset, "chats");
  EXPECT_EQ((*prompts)[0].conversation, nullptr);
  ASSERT_NE((*prompts)[1].conversation, nullptr);
  EXPECT_EQ((*prompts)[1].conversation->later_turns, std::vector<std::string>{"two"});
  const auto tokens = std::vector{(*prompts)[0].tokens, (*prompts)[1].tokens, (*prompts)[2].tokens};
  EXPECT_EQ(tokens[0], Tokens("u:hi;a:yo;"));
  EXPECT_EQ(tokens[1], Tokens("u:one;"));
  EXPECT_EQ(tokens[2], Tokens("u:one;no"));
}

TEST_F(PromptsTest, ArgumentsOfTheTemplateHaveDefaults) {
  const std::string lines = R"({"id": "a", "turns": ["one"]}
{"id": "b", "turns": ["one"], "template_args": {"enable_thinking": true}}
)";
  const auto prompts = Load(lines, R"({"enable_thinking": false})");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  const auto first = (*prompts)[0].tokens, second = (*prompts)[1].tokens;
  EXPECT_EQ(first, Tokens("u:one;no"));
  EXPECT_EQ(second, Tokens("u:one;"));
  EXPECT_THAT(Load(lines, "[]").status().message(), HasSubstr("--template_args"));
}

TEST_F(PromptsTest, BadConversationsAreErrorsThatNameTheLine) {
  for (const char* const rest :
       {R"("messages": [])", R"("messages": [{"role": "user"}])", R"("messages": "hi")",
        R"("turns": [])", R"("turns": [3])", R"("turns": ["a"], "template_args": 1)",
        R"("turns": ["a"], "template_args": {"messages": 1})"}) {
    EXPECT_THAT(Load(std::string(R"({"id": "a", )") + rest + "}").status().message(),
                HasSubstr("prompts.jsonl:1"))
        << rest;
  }
}

TEST(ResizedTest, PromptsAreCutOrFilledUpAtTheFront) {
  const std::vector<BenchPrompt> prompts = {{"a", {1, 2, 3}}, {"b", {4}}};
  const auto two = Resized(prompts, 2);
  EXPECT_THAT(two[0].tokens, ElementsAre(2, 3));
  EXPECT_THAT(two[1].tokens, ElementsAre(3, 4));
  const auto six = Resized(prompts, 6);
  EXPECT_THAT(six[0].tokens, ElementsAre(2, 3, 4, 1, 2, 3));
  EXPECT_THAT(six[1].tokens, ElementsAre(3, 4, 1, 2, 3, 4));
  EXPECT_EQ(six[1].id, "b");
}

class ArrivalsTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<TracedArrival>> Load(const std::string& lines) {
    const std::string file = folder_.File("arrivals.jsonl");
    std::ofstream(file) << lines;
    return LoadArrivals(file, folder_.path(), {{"known", {5, 6}}});
  }

  const testing::TempFolder folder_;
};

TEST_F(ArrivalsTest, AreSortedByTimeAndNameTheirPromptOrContainIt) {
  const auto arrivals = Load(R"({"at_seconds": 2.5, "token_ids": [7, 8, 9]}

{"at_seconds": 0, "id": "known", "max_new_tokens": 3}
{"at_seconds": 1, "id": "own", "token_ids": [1]}
)");
  ASSERT_TRUE(arrivals.ok()) << arrivals.status();
  ASSERT_EQ(arrivals->size(), 3u);
  EXPECT_THAT((*arrivals)[0].prompt.tokens, ElementsAre(5, 6));
  EXPECT_EQ((*arrivals)[0].max_new_tokens, 3);
  EXPECT_EQ((*arrivals)[1].prompt.id, "own");
  EXPECT_EQ((*arrivals)[1].max_new_tokens, 0);
  EXPECT_EQ((*arrivals)[2].prompt.id, "arrival-0");
  EXPECT_EQ((*arrivals)[2].at_seconds, 2.5);
}

TEST_F(ArrivalsTest, WrongLinesAreNamed) {
  const auto message = [&](const std::string& line) {
    const auto arrivals = Load("{\"at_seconds\": 0, \"id\": \"known\"}\n" + line + "\n");
    EXPECT_TRUE(absl::IsInvalidArgument(arrivals.status())) << line;
    EXPECT_THAT(std::string(arrivals.status().message()), HasSubstr("arrivals.jsonl:2: ")) << line;
    return std::string(arrivals.status().message());
  };
  EXPECT_THAT(message("not json"), HasSubstr("at_seconds"));
  EXPECT_THAT(message(R"({"id": "known"})"), HasSubstr("at_seconds"));
  EXPECT_THAT(message(R"({"at_seconds": -1, "id": "known"})"), HasSubstr("at_seconds"));
  EXPECT_THAT(message(R"({"at_seconds": 1, "id": "other"})"), HasSubstr("\"other\""));
  EXPECT_THAT(message(R"({"at_seconds": 1, "token_ids": []})"), HasSubstr("no tokens"));
  EXPECT_THAT(message(R"({"at_seconds": 1, "token_ids": [99999999999]})"), HasSubstr("2147483647"));
  EXPECT_THAT(message(R"({"at_seconds": 1, "id": "known", "token_ids": [5]})"),
              HasSubstr("another prompt has the id \"known\""));
  EXPECT_THAT(message(R"({"at_seconds": 1, "id": "known", "max_new_tokens": 0})"),
              HasSubstr("max_new_tokens"));
}

TEST_F(ArrivalsTest, AnEmptyOrMissingFileIsReported) {
  EXPECT_TRUE(absl::IsInvalidArgument(Load("\n").status()));
  EXPECT_TRUE(absl::IsNotFound(LoadArrivals("/nowhere", "", {}).status()));
}

}  // namespace
}  // namespace bastion
