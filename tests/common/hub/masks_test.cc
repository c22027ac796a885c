// Masks of grammars, compared with what can be pushed.
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/hub/grammar.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::hub {
namespace {

// A vocabulary with words of 1 to 40 characters, with characters of 1 to 4 bytes, and with
// punctuation.
std::vector<std::string> WordsOfAllLengths() {
  const char* parts[] = {"a", "Z", "7", " ", "-", "é", "世", "😀", "xyz", "\"", "\\", "\n", "\x7F"};
  std::vector<std::string> words;
  std::set<std::string> seen;
  for (uint32_t i = 0; words.size() < 600; ++i) {
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

// Over a vocabulary that ends with the tokens <|x|> and <|end|>.
class Masks {
 public:
  explicit Masks(const std::vector<std::string>& words)
      : tokenizer_(testing::LoadTokenizer(TokenizerJson(words))) {}

  GrammarState Compile(GrammarKind kind, const char* text) const {
    return *compiler_.Compile(kind, text);
  }
  // The tokens that may follow, without the end token.
  std::vector<TokenId> Allowed(GrammarState& state) const {
    std::vector<TokenId> tokens;
    const auto allowed = state.Allowed();
    for (TokenId token = 0; token < end_; ++token) {
      if (allowed->contains(token)) tokens.push_back(token);
    }
    return tokens;
  }
  // Expects that exactly the allowed tokens can be pushed.
  void ExpectMask(GrammarState& state, const std::string& text) const {
    const auto allowed = state.Allowed();
    ASSERT_TRUE(allowed.ok()) << allowed.status();
    int wrong = 0;
    for (TokenId token = 0; token < end_; ++token) {
      const bool pushed = state.Push(token).ok();
      if (pushed != allowed->contains(token)) ++wrong;
      if (!pushed) continue;
      ASSERT_TRUE(state.Pop(1).ok());
    }
    EXPECT_EQ(wrong, 0) << "after " << text;
  }

  const Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  static nlohmann::json TokenizerJson(const std::vector<std::string>& words) {
    nlohmann::json tokenizer = testing::WordTokenizerJson(words);
    const TokenId first = testing::kFirstMerge + static_cast<TokenId>(words.size());
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

  const Tokenizer tokenizer_;
  const TokenId end_ = tokenizer_.vocabulary() - 1;
  const GrammarCompiler compiler_ =
      *GrammarCompiler::Create(tokenizer_, tokenizer_.vocabulary(), {end_});
};

class MaskTest : public ::testing::TestWithParam<std::pair<GrammarKind, const char*>> {};

TEST_P(MaskTest, HasTheTokensThatCanBePushed) {
  const Masks masks(WordsOfAllLengths());
  const GrammarState start = masks.Compile(GetParam().first, GetParam().second);
  for (uint32_t walk = 0; walk < 3; ++walk) {
    auto state = start.Copy();
    ASSERT_TRUE(state.ok()) << state.status();
    std::string text;
    for (uint32_t step = 0; step < 12 && !state->complete(); ++step) {
      masks.ExpectMask(*state, text);
      const std::vector<TokenId> next = masks.Allowed(*state);
      if (next.empty()) break;
      const TokenId token = next[KeyedWords(13, walk, step)[0] % next.size()];
      ASSERT_TRUE(state->Push(token).ok());
      text += *masks.tokenizer().Decode({token}, false);
    }
  }
}

// More tokens end a lexeme than are kept for a state of the lexer.
TEST(MaskOfManyTokensTest, HasTheTokensThatCanBePushed) {
  std::vector<std::string> words;
  for (int i = 10'000; i < 15'000; ++i) words.push_back(absl::StrCat("a ", i));
  const Masks masks(words);
  GrammarState state =
      masks.Compile(GrammarKind::kLark, "start: WORD (\" \" WORD)*\nWORD: /[a-z0-9]+/");
  for (const char* text : {"", "a", "aa", "aaa", "aaaa"}) {
    masks.ExpectMask(state, text);
    EXPECT_GT(masks.Allowed(state).size(), words.size());
    ASSERT_TRUE(state.Push('a').ok());
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
