#include "orchestrator/openai/openai_logprobs.h"

#include <string>
#include <utility>
#include <vector>

#include "common/hub/detokenizer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using testing::kEndOfText;
using testing::kImEnd;

constexpr TokenId kPadding = 1000;  // The tokenizer does not know it.

class OpenAiLogprobsTest : public ::testing::Test {
 protected:
  using Top = std::vector<std::pair<TokenId, float>>;

  // The output of a cycle with these tokens, each with `top`.
  static OutputDelta Delta(std::vector<TokenId> tokens, std::string text, const Top& top = {}) {
    OutputDelta delta;
    delta.logprobs.assign(tokens.size(), {-1, top});
    delta.tokens = std::move(tokens);
    delta.text = std::move(text);
    return delta;
  }
  static OutputDelta Last(OutputDelta delta) {
    delta.end.emplace();
    return delta;
  }

  const hub::Tokenizer tokenizer_ = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  OpenAiLogprobs completion_{OpenAiKind::kCompletion, &tokenizer_};
  OpenAiLogprobs chat_{OpenAiKind::kChat, &tokenizer_};
};

TEST_F(OpenAiLogprobsTest, OffsetsAreThoseOfTheirCharacters) {
  const std::string text = "a\xF0\x9F\x98\x80\xC3\xA9";  // a 😀 é
  const ordered_json lists =
      completion_.Add(Last(Delta({'a', 0xF0, 0x9F, 0x98, 0x80, 0xC3, 0xA9}, text)));
  EXPECT_THAT(lists["text_offset"], ElementsAre(0, 1, 1, 1, 1, 2, 2));
}

TEST_F(OpenAiLogprobsTest, SpecialTokensAddNothing) {
  const ordered_json lists =
      completion_.Add(Last(Delta({'a', kEndOfText, kImEnd, 'b', kPadding}, "ab")));
  EXPECT_THAT(lists["text_offset"], ElementsAre(0, 1, 1, 1, 2));
  EXPECT_THAT(lists["tokens"],
              ElementsAre("a", "<|endoftext|>", "<|im_end|>", "b", "token_id:1000"));
  const ordered_json content = chat_.Add(Last(Delta({kEndOfText}, "")))["content"];
  EXPECT_EQ(content[0]["token"], "<|endoftext|>");
  EXPECT_EQ(content[0]["bytes"], ordered_json::array());
}

TEST_F(OpenAiLogprobsTest, JoinedBytesSpellTheText) {
  const std::string text = "x\xF0\x9F\x98\x80";
  const ordered_json content =
      chat_.Add(Last(Delta({'x', 0xF0, 0x9F, 0x98, 0x80}, text, {{0x80, -0.5F}})))["content"];
  std::string joined;
  for (const ordered_json& token : content) {
    for (const ordered_json& byte : token["bytes"]) joined += static_cast<char>(byte.get<int>());
    EXPECT_EQ(token["top_logprobs"][0]["bytes"], ordered_json::array({0x80}));
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(content[1]["token"], "\\xf0");
}

TEST_F(OpenAiLogprobsTest, TheChosenTokenIsAlwaysListed) {
  const ordered_json top = completion_.Add(Last(Delta({'c'}, "c", {{'a', -0.1F}, {'b', -0.2F}})));
  EXPECT_EQ(top["top_logprobs"][0].dump(),
            ordered_json({{"a", -0.1F}, {"b", -0.2F}, {"c", -1.0F}}).dump());
  OpenAiLogprobs none(OpenAiKind::kCompletion, &tokenizer_);
  EXPECT_EQ(none.Add(Last(Delta({'c'}, "c")))["top_logprobs"][0], ordered_json({{"c", -1.0F}}));
}

// Parts of characters, tokens that the tokenizer does not know, and texts that are spelled like the
// name of another token.
TEST_F(OpenAiLogprobsTest, TokensDoNotShareAnEntry) {
  const Top top = {{0xF0, -0.1F}, {0xE6, -0.2F}, {kPadding, -0.3F}, {kPadding + 1, -0.4F}};
  const ordered_json lists = completion_.Add(Last(Delta({0xF0}, "\xEF\xBF\xBD", top)));
  EXPECT_EQ(lists["tokens"][0], "bytes:\\xf0");
  EXPECT_EQ(lists["top_logprobs"][0].size(), 4U);
  const hub::Tokenizer twins = [] {
    nlohmann::json words = testing::WordTokenizerJson({"<0x41>"});
    words["decoder"] = {{"type", "ByteFallback"}};
    return testing::LoadTokenizer(words);
  }();
  OpenAiLogprobs logprobs(OpenAiKind::kCompletion, &twins);
  const ordered_json shared = logprobs.Add(
      Last(Delta({testing::kFirstMerge}, "A", {{'A', -0.1F}, {testing::kFirstMerge, -0.2F}})));
  EXPECT_EQ(shared["tokens"][0], "A");
  EXPECT_EQ(shared["top_logprobs"][0].dump(),
            ordered_json({{"token_id:65", -0.1F}, {"A", -0.2F}}).dump());
}

TEST_F(OpenAiLogprobsTest, TokensComeWithTheirText) {
  // "st" may begin a stop string, so its text is held back.
  EXPECT_THAT(completion_.Add(Delta({'a', 's', 't'}, "a"))["tokens"], ElementsAre("a"));
  EXPECT_THAT(completion_.Add(Delta({0xC3}, ""))["tokens"], ElementsAre());
  const ordered_json rest = completion_.Add(Delta({0xA9, 'b'}, "st\xC3\xA9"));
  EXPECT_THAT(rest["tokens"], ElementsAre("s", "t", "bytes:\\xc3", "bytes:\\xa9"));
  EXPECT_THAT(rest["text_offset"], ElementsAre(1, 2, 3, 3));
  EXPECT_THAT(completion_.Add(Delta({kEndOfText}, "b"))["tokens"],
              ElementsAre("b", "<|endoftext|>"));
}

TEST_F(OpenAiLogprobsTest, OffsetsStayInsideATextThatAStopStringHasCut) {
  EXPECT_THAT(completion_.Add(Delta({'a', 's'}, "a"))["text_offset"], ElementsAre(0));
  const ordered_json last = completion_.Add(Last(Delta({'t', 'o', 'p'}, "")));
  EXPECT_THAT(last["tokens"], ElementsAre("s", "t", "o", "p"));
  EXPECT_THAT(last["text_offset"], ElementsAre(1, 1, 1, 1));
}

}  // namespace
}  // namespace bastion
