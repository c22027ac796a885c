#include "client/bench/prompts.h"

#include <set>

#include "gtest/gtest.h"

namespace bastion {
namespace {

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

}  // namespace
}  // namespace bastion
