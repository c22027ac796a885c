// Masks of grammars, compared with what can be pushed.
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "common/hub/grammar.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::hub {
namespace {

constexpr size_t kWords = 600;

// A vocabulary with words of 1 to 40 characters, with characters of 1 to 4 bytes, and with
// punctuation.
std::vector<std::string> WordsOfAllLengths() {
  const char* parts[] = {"a", "Z", "7", " ", "-", "é", "世", "😀", "xyz", "\"", "\\", "\n", "\x7F"};
  std::vector<std::string> words;
  std::set<std::string> seen;
  for (uint32_t i = 0; words.size() < kWords; ++i) {
    const auto random = KeyedWords(11, 0, i);
    const uint32_t length = 2 + random[0] % (i % 3 == 0 ? 38 : 8);
    // One word in four has punctuation.
    const size_t kinds = random[1] % 4 == 0 ? std::size(parts) : std::size(parts) - 4;
    std::string word;
    for (uint32_t k = 0; k < length; ++k) word += parts[KeyedWords(12, k, i)[0] % kinds];
    if (seen.insert(word).second) words.push_back(std::move(word));
  }
  return words;
}

class MaskTest : public ::testing::TestWithParam<std::pair<GrammarKind, const char*>> {
 protected:
  // Expects that exactly the allowed tokens can be pushed.
  void ExpectMask(GrammarState& state, const std::string& text) const {
    const auto allowed = state.Allowed();
    ASSERT_TRUE(allowed.ok()) << allowed.status();
    int wrong = 0;
    for (TokenId token = 0; token < tokenizer_.vocabulary(); ++token) {
      if (token == end_) continue;
      const bool pushed = state.Push(token).ok();
      if (pushed != allowed->contains(token)) ++wrong;
      if (!pushed) continue;
      ASSERT_TRUE(state.Pop(1).ok());
    }
    EXPECT_EQ(wrong, 0) << "after " << text;
  }

  static nlohmann::json TokenizerJson() {
    nlohmann::json tokenizer = testing::WordTokenizerJson(WordsOfAllLengths());
    const TokenId first = testing::kFirstMerge + kWords;
    for (const char* special : {"<|x|>", "<|end|>"}) {
      const TokenId id = first + static_cast<TokenId>(tokenizer["added_tokens"].size());
      tokenizer["added_tokens"].push_back({{"id", id},
                                           {"content", special},
                                           {"special", true},
                                           {"single_word", false},
                                           {"lstrip", false},
                                           {"rstrip", false},
                                           {"normalized", false}});
    }
    return tokenizer;
  }

  const Tokenizer tokenizer_ = testing::LoadTokenizer(TokenizerJson());
  const TokenId end_ = tokenizer_.vocabulary() - 1;
  const GrammarCompiler compiler_ =
      *GrammarCompiler::Create(tokenizer_, tokenizer_.vocabulary(), {end_});
};

TEST_P(MaskTest, HasTheTokensThatCanBePushed) {
  auto start = compiler_.Compile(GetParam().first, GetParam().second);
  ASSERT_TRUE(start.ok()) << start.status();
  for (uint32_t walk = 0; walk < 3; ++walk) {
    auto state = start->Copy();
    ASSERT_TRUE(state.ok()) << state.status();
    std::string text;
    for (uint32_t step = 0; step < 12 && !state->complete(); ++step) {
      ExpectMask(*state, text);
      std::vector<TokenId> next;
      const auto allowed = state->Allowed();
      for (TokenId token = 0; token < tokenizer_.vocabulary(); ++token) {
        if (token != end_ && allowed->contains(token)) next.push_back(token);
      }
      if (next.empty()) break;
      const TokenId token = next[KeyedWords(13, walk, step)[0] % next.size()];
      ASSERT_TRUE(state->Push(token).ok());
      text += *tokenizer_.Decode({token}, false);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Languages, MaskTest,
    ::testing::Values(
        std::pair{GrammarKind::kJsonSchema, R"({"type": "string"})"},
        std::pair{GrammarKind::kJsonSchema, R"({"type": "string", "maxLength": 5})"},
        std::pair{GrammarKind::kJsonSchema,
                  R"({"type": "string", "minLength": 3, "maxLength": 9})"},
        std::pair{GrammarKind::kJsonSchema, R"({"type": "string", "maxLength": 33})"},
        std::pair{GrammarKind::kJsonSchema, R"({"type": "string", "minLength": 40})"},
        std::pair{GrammarKind::kJsonSchema, R"({"type": "string", "pattern": "^[a-z é]{0,6}$"})"},
        std::pair{GrammarKind::kJsonSchema, R"({"enum": ["a", "ab", "Zaé世", 77]})"},
        std::pair{GrammarKind::kJsonSchema,
                  R"({"type": "array", "items": {"type": "string", "maxLength": 4}})"},
        std::pair{GrammarKind::kRegex, "(?s:.*)"}, std::pair{GrammarKind::kRegex, "[^a]{0,7}"},
        std::pair{GrammarKind::kRegex, "(?s:.{3,12})|a{50}"},
        std::pair{GrammarKind::kRegex, "([a-zA-Z7é世 -]+[.])*"},
        std::pair{GrammarKind::kJsonSchema,
                  R"({"type": "array", "items": {"type": "string", "pattern": "^[^7]*$"}})"},
        std::pair{GrammarKind::kLark,
                  "start: (WORD | NUMBER)+\nWORD: /[a-zA-Zé世 ]+/\nNUMBER: /[7\"-]+/"},
        std::pair{GrammarKind::kRegex, "[a-z]+( [A-Z7]+){0,3}"},
        std::pair{GrammarKind::kLark, "start: WORD (\" \" WORD)*\nWORD: /[^\"\\\\ ]{1,6}/"},
        std::pair{GrammarKind::kLark, "start: WORD*\nWORD: /[a-z7]+/\n%ignore /[ \\n]+/"},
        std::pair{GrammarKind::kLark, "start: (WORD <|x|>)*\nWORD: /[a-z7 ]*/"},
        std::pair{GrammarKind::kLark, "start: T\nT: ~/[a-z]*/"},
        std::pair{GrammarKind::kLark, "start: /.{0,4}/ \"-\" /(.|\\n)*/"}));

}  // namespace
}  // namespace bastion::hub
