#include "tools/bench/later_turns.h"

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/conversation.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

class LaterTurnsTest : public ::testing::Test {
 protected:
  LaterTurnsTest() {
    folder_.Write("tokenizer.json", testing::ByteLevelTokenizerJson().dump());
    folder_.Write("chat_template.jinja",
                  "{% for m in messages %}{{ m.role[0] }}:{{ m.content }};{% endfor %}{{ mark }}");
  }
  std::vector<TokenId> Tokens(const std::string& text) { return *text_.Encode(text); }

  testing::TempFolder folder_;
  PromptText text_{folder_.path()};
};

TEST_F(LaterTurnsTest, ALaterTurnFollowsTheAnswersToTheEarlierOnes) {
  Conversation conversation;
  conversation.messages = {{"user", "one"}};
  conversation.later_turns = {"two", "three"};
  conversation.template_args = R"({"mark": "!"})";
  BenchPrompt first = {"chat", *text_.EncodeChat(conversation.messages, R"({"mark": "!"})")};
  first.dataset = "set";
  first.conversation = std::make_shared<const Conversation>(conversation);
  const std::vector<BenchPrompt> prompts = {{"plain", {1, 2}}, first};
  ASSERT_TRUE(HasLaterTurns(prompts));
  int answers = 0;
  const auto all = WithLaterTurns(prompts, text_, [&](const BenchPrompt& prompt) {
    EXPECT_THAT(prompt.id, HasSubstr("chat"));
    return absl::StatusOr<std::vector<TokenId>>(Tokens(absl::StrCat("a", ++answers)));
  });
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 4u);
  EXPECT_EQ((*all)[1].tokens, Tokens("u:one;!"));
  EXPECT_EQ((*all)[2].id, "chat-turn-2");
  EXPECT_EQ((*all)[2].tokens, Tokens("u:one;a:a1;u:two;!"));
  EXPECT_EQ((*all)[3].tokens, Tokens("u:one;a:a1;u:two;a:a2;u:three;!"));
  EXPECT_EQ((*all)[3].dataset, "set");
  EXPECT_FALSE(HasLaterTurns(*all));
}

TEST_F(LaterTurnsTest, AnErrorNamesThePrompt) {
  Conversation conversation = {{{"user", "one"}}, {"two"}};
  const BenchPrompt first = {"chat", {1}, "", std::make_shared<const Conversation>(conversation)};
  const auto all = WithLaterTurns({first}, text_, [](const BenchPrompt&) {
    return absl::StatusOr<std::vector<TokenId>>(absl::InternalError("broken"));
  });
  EXPECT_THAT(all.status().message(), HasSubstr("chat: broken"));
}

}  // namespace
}  // namespace bastion
