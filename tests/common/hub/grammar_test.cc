#include "common/hub/grammar.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::hub {
namespace {

using ::testing::HasSubstr;
using testing::kByteLevelVocabulary;
using testing::kEndOfText;
using testing::kImEnd;
using testing::kImStart;

// The model's vocabulary is padded.
constexpr int kVocabulary = kByteLevelVocabulary + 5;

class GrammarTest : public ::testing::Test {
 protected:
  GrammarState Compile(GrammarKind kind, const std::string& text) const {
    auto state = compiler_.Compile(kind, text);
    CHECK(state.ok()) << text << ": " << state.status();
    return *std::move(state);
  }
  // The text of the tokens that may follow, as far as they are single printable bytes.
  static std::string AllowedBytes(GrammarState& state) {
    const auto allowed = state.Allowed();
    EXPECT_TRUE(allowed.ok()) << allowed.status();
    std::string bytes;
    for (TokenId byte = ' '; byte <= '~'; ++byte) {
      if (allowed->contains(byte)) bytes.push_back(static_cast<char>(byte));
    }
    return bytes;
  }
  static bool Allows(GrammarState& state, TokenId token) {
    const auto allowed = state.Allowed();
    EXPECT_TRUE(allowed.ok()) << allowed.status();
    return allowed->contains(token);
  }
  // Bytes are tokens of the toy tokenizer.
  static absl::Status PushText(GrammarState& state, const std::string& text) {
    for (const char byte : text) {
      const absl::Status pushed = state.Push(static_cast<uint8_t>(byte));
      if (!pushed.ok()) return pushed;
    }
    return absl::OkStatus();
  }

  const Tokenizer tokenizer_ = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  const GrammarCompiler compiler_ =
      *GrammarCompiler::Create(tokenizer_, kVocabulary, {kEndOfText, kImEnd});
};

TEST_F(GrammarTest, ARegexAllowsWhatMayFollow) {
  GrammarState state = Compile(GrammarKind::kRegex, "ab?c");
  EXPECT_EQ(AllowedBytes(state), "a");
  ASSERT_TRUE(state.Push('a').ok());
  EXPECT_EQ(AllowedBytes(state), "bc");
  EXPECT_FALSE(Allows(state, kEndOfText));
}

TEST_F(GrammarTest, ATextThatIsCompleteMayEnd) {
  GrammarState state = Compile(GrammarKind::kRegex, "ab*");
  ASSERT_TRUE(state.Push('a').ok());
  EXPECT_FALSE(state.complete());
  EXPECT_EQ(AllowedBytes(state), "b");
  EXPECT_TRUE(Allows(state, kEndOfText));
  EXPECT_TRUE(Allows(state, kImEnd));
  EXPECT_FALSE(Allows(state, kImStart));
}

TEST_F(GrammarTest, ATextThatNothingContinuesIsComplete) {
  GrammarState state = Compile(GrammarKind::kRegex, "ab");
  ASSERT_TRUE(PushText(state, "a").ok());
  EXPECT_FALSE(state.complete());
  ASSERT_TRUE(PushText(state, "b").ok());
  EXPECT_TRUE(state.complete());
  ASSERT_TRUE(state.Pop(1).ok());
  EXPECT_FALSE(state.complete());
  EXPECT_EQ(AllowedBytes(state), "b");
}

TEST_F(GrammarTest, PopRestoresEveryEarlierState) {
  GrammarState state = Compile(GrammarKind::kJsonSchema, R"({"type": "array", "items":
                                                              {"enum": ["x", "yz", 12]}})");
  const std::string text = R"(["x", 12, "yz"])";
  std::vector<TokenSet> before;
  for (const char byte : text) {
    before.push_back(*state.Allowed());
    ASSERT_TRUE(state.Push(static_cast<uint8_t>(byte)).ok()) << byte;
  }
  EXPECT_TRUE(state.complete());
  while (!before.empty()) {
    ASSERT_TRUE(state.Pop(1).ok());
    EXPECT_EQ(*state.Allowed(), before.back()) << before.size();
    before.pop_back();
  }
}

TEST_F(GrammarTest, TokensOfSeveralBytesAreAllowedIfAllTheirBytesAre) {
  GrammarState state = Compile(GrammarKind::kRegex, "the (the|th)x");
  const TokenId th = *tokenizer_.Find("th"), the = *tokenizer_.Find("the");
  EXPECT_TRUE(Allows(state, th));
  EXPECT_TRUE(Allows(state, the));
  ASSERT_TRUE(state.Push(th).ok());
  EXPECT_FALSE(Allows(state, the));
  EXPECT_TRUE(Allows(state, 'e'));
}

TEST_F(GrammarTest, TextThatMustFollowIsForced) {
  GrammarState state = Compile(GrammarKind::kRegex, "ab(c|d)efg");
  EXPECT_EQ(*state.Forced(), "ab");
  EXPECT_EQ(*state.Forced(), "ab");  // Asking changes nothing.
  ASSERT_TRUE(PushText(state, "a").ok());
  EXPECT_EQ(*state.Forced(), "b");
  ASSERT_TRUE(PushText(state, "b").ok());
  EXPECT_EQ(*state.Forced(), "");
  EXPECT_EQ(AllowedBytes(state), "cd");
  ASSERT_TRUE(PushText(state, "d").ok());
  EXPECT_EQ(*state.Forced(), "efg");
  ASSERT_TRUE(state.Pop(2).ok());
  EXPECT_EQ(*state.Forced(), "b");
}

TEST_F(GrammarTest, WholeCharactersAreForced) {
  GrammarState state = Compile(GrammarKind::kRegex, "é(ü|ö)");
  EXPECT_EQ(*state.Forced(), "é") << "the two letters begin with the same byte";
  ASSERT_TRUE(PushText(state, "\xC3").ok());
  EXPECT_EQ(*state.Forced(), "") << "inside a character";
}

TEST_F(GrammarTest, TextThatMayEndIsNotForced) {
  GrammarState state = Compile(GrammarKind::kRegex, "ab(cd)?");
  EXPECT_EQ(*state.Forced(), "ab");
}

TEST_F(GrammarTest, SpecialTokensAreNotForced) {
  GrammarState state = Compile(GrammarKind::kLark, "start: \"a\" <|im_start|> \"b\"");
  EXPECT_EQ(*state.Forced(), "a");
  ASSERT_TRUE(PushText(state, "a").ok());
  EXPECT_TRUE(Allows(state, kImStart));
  ASSERT_TRUE(state.Push(kImStart).ok());
  EXPECT_EQ(*state.Forced(), "b");
}

TEST_F(GrammarTest, TheKeysOfAnObjectAreForced) {
  GrammarState state = Compile(GrammarKind::kJsonSchema,
                               R"({"type": "object", "properties": {"name": {"type": "string"}},
                                   "required": ["name"], "additionalProperties": false})");
  EXPECT_EQ(*state.Forced(), R"({"name": ")");
}

TEST_F(GrammarTest, ATokenThatIsNotAllowedIsRefusedAndChangesNothing) {
  GrammarState state = Compile(GrammarKind::kRegex, "ab");
  EXPECT_TRUE(absl::IsInvalidArgument(state.Push('b')));
  EXPECT_EQ(AllowedBytes(state), "a");
}

TEST_F(GrammarTest, PaddingAndSpecialTokensAreNeverAllowed) {
  GrammarState state = Compile(GrammarKind::kRegex, "(?s:.*)");
  for (TokenId token = kImStart; token < kVocabulary; ++token) {
    EXPECT_EQ(Allows(state, token), token == kImEnd) << token;
  }
}

TEST_F(GrammarTest, CopiesAreIndependent) {
  GrammarState state = Compile(GrammarKind::kRegex, "ab");
  ASSERT_TRUE(state.Push('a').ok());
  auto copy = state.Copy();
  ASSERT_TRUE(copy.ok()) << copy.status();
  ASSERT_TRUE(copy->Push('b').ok());
  EXPECT_TRUE(copy->complete());
  EXPECT_FALSE(state.complete());
  EXPECT_EQ(AllowedBytes(state), "b");
}

TEST_F(GrammarTest, JsonIsFormattedLikePythonsDumps) {
  const std::string schema = R"({"type": "object", "properties": {"a": {"type": "integer"},
                                 "b": {"type": "boolean"}}, "required": ["a", "b"],
                                 "additionalProperties": false})";
  GrammarState state = Compile(GrammarKind::kJsonSchema, schema);
  ASSERT_TRUE(PushText(state, R"({"a": 12, "b": true})").ok());
  EXPECT_TRUE(state.complete());
  GrammarState spaced = Compile(GrammarKind::kJsonSchema, schema);
  EXPECT_FALSE(PushText(spaced, "{\n").ok());
}

TEST_F(GrammarTest, ASchemaMayAllowOtherWhitespace) {
  GrammarState state =
      Compile(GrammarKind::kJsonSchema,
              R"({"type": "object", "x-guidance": {"whitespace_flexible": true}})");
  EXPECT_TRUE(PushText(state, "{ \n }").ok());
}

TEST_F(GrammarTest, ALarkGrammarMayBeRecursive) {
  GrammarState state = Compile(GrammarKind::kLark, R"*(start: "(" start ")" | "x")*");
  ASSERT_TRUE(PushText(state, "((x").ok());
  EXPECT_EQ(AllowedBytes(state), ")");
  ASSERT_TRUE(PushText(state, "))").ok());
  EXPECT_TRUE(state.complete());
}

TEST_F(GrammarTest, CharactersOfSeveralBytesCannotBeCut) {
  GrammarState state = Compile(GrammarKind::kRegex, "é");
  ASSERT_TRUE(state.Push(0xC3).ok());
  EXPECT_FALSE(Allows(state, kEndOfText));
  ASSERT_TRUE(state.Push(0xA9).ok());
  EXPECT_TRUE(state.complete());
}

struct BadGrammar {
  GrammarKind kind;
  const char* text;
  const char* complaint;
};

TEST_F(GrammarTest, InvalidGrammarsAreRefusedWithThePlace) {
  const BadGrammar bad[] = {
      {GrammarKind::kJsonSchema, "{\n\"type\": ", "line 2"},
      {GrammarKind::kJsonSchema, R"({"type": "strang"})", "strang"},
      {GrammarKind::kJsonSchema, R"({"type": "object", "patternProperties": 7})", ""},
      {GrammarKind::kJsonSchema, "\xFF", "byte 0"},
      {GrammarKind::kRegex, "a(b", ""},
      {GrammarKind::kRegex, "[a&&b]", "no text matches"},
      {GrammarKind::kLark, "start: other", "other"},
      {GrammarKind::kLark, "start: \"a\" <|im_end|> \"b\"", "ends the answer"},
      {GrammarKind::kLark, "start: <[0-266]>", "ends the answer"},
      {GrammarKind::kLark, "start: \"a", ""},
      {GrammarKind::kLark, "", ""},
  };
  for (const auto& [kind, text, complaint] : bad) {
    const auto state = compiler_.Compile(kind, text);
    EXPECT_TRUE(absl::IsInvalidArgument(state.status())) << text << ": " << state.status();
    EXPECT_THAT(std::string(state.status().message()), HasSubstr(complaint)) << text;
    EXPECT_FALSE(state.status().message().empty()) << text;
    EXPECT_LT(state.status().message().size(), 500u) << text;
  }
}

TEST_F(GrammarTest, LargeGrammarsCompileSoonOrAreRefused) {
  StopWatch watch(Clock::Real());
  // 10^15 letters at most.
  const std::string huge = "(((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000})";
  GrammarState state = Compile(GrammarKind::kRegex, huge);
  EXPECT_EQ(AllowedBytes(state), "a");
  std::string many = "start: \"a\"";
  for (int i = 0; i < 4000; ++i) absl::StrAppend(&many, " | \"", i, "\"");
  EXPECT_TRUE(compiler_.Compile(GrammarKind::kLark, many).ok());
  EXPECT_LT(watch.Lap(), absl::Seconds(20));
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += R"({"type": "array", "items": )";
  EXPECT_FALSE(compiler_.Compile(GrammarKind::kJsonSchema, deep).ok());
}

// Rules that refer to each other in a chain: "aaa: aab", "aab: aac", …
std::string Chain(char first, int rules, const std::string& begin, const std::string& end) {
  const auto name = [&](int i) {
    std::string name(3, first);
    for (char& letter : name) {
      letter = static_cast<char>(first + i % 26);
      i /= 26;
    }
    return name;
  };
  std::string chain = absl::StrCat(begin, name(0), "\n");
  for (int i = 0; i < rules; ++i) absl::StrAppend(&chain, name(i), ":", name(i + 1), "\n");
  return absl::StrCat(chain, name(rules), ":", end);
}

TEST_F(GrammarTest, DeepGrammarsDoNotOverflowTheStack) {
  std::string references = R"({"$ref": "#/a0")";
  for (int i = 0; i < 2450; ++i) {
    absl::StrAppend(&references, R"(,"a)", i, R"(":{"$ref":"#/a)", i + 1, R"("})");
  }
  std::string calls = "start: ";
  for (int i = 0; i < 32000; ++i) calls += "a{";
  const std::pair<GrammarKind, std::string> deep[] = {
      {GrammarKind::kLark, calls},
      {GrammarKind::kLark, Chain('a', 7900, "start: ", "\"x\"")},
      {GrammarKind::kLark, Chain('A', 7900, "start: ", "\"x\"")},
      {GrammarKind::kJsonSchema, references + R"(,"a2450":{"type":"null"}})"}};
  for (const auto& [kind, text] : deep) {
    ASSERT_LE(text.size(), 65536u);
    (void)compiler_.Compile(kind, text);  // It is compiled or refused.
  }
}

TEST_F(GrammarTest, SchemasThatWouldTakeAllMemoryAreRefused) {
  std::string counted = R"({"type":"object","additionalProperties":false,"minProperties":1,)";
  absl::StrAppend(&counted, R"("properties":{"a":{})");
  for (int i = 0; i < 5000; ++i) absl::StrAppend(&counted, ",\"", i, "\":{}");
  const std::string bombs[] = {
      R"({"type":"array","minItems":100000000000})", R"({"type":"array","maxItems":100000000})",
      R"({"minItems":-1e300,"items":{"type":"array","minItems":1e300}})", counted + "}}"};
  for (const std::string& text : bombs) {
    const absl::Status status = compiler_.Compile(GrammarKind::kJsonSchema, text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text.substr(0, 60) << ": " << status;
  }
  const char embedded[] = R"(start: %json {"type":"array","minItems":100000000000})";
  EXPECT_TRUE(absl::IsInvalidArgument(compiler_.Compile(GrammarKind::kLark, embedded).status()));
  EXPECT_TRUE(
      compiler_.Compile(GrammarKind::kJsonSchema, R"({"type":"array","maxItems":500})").ok());
}

TEST_F(GrammarTest, DivisorsThatWouldNeedLargeAutomatonsAreRefusedWithTheirPlace) {
  std::string many = R"({"type":"object","properties":{"p":{})";
  for (int i = 0; i < 10; ++i) absl::StrAppend(&many, ",\"", i, "\":{\"multipleOf\":5000}");
  const std::pair<std::string, std::string> bad[] = {
      {R"({"multipleOf":9999991})", "at #: multipleOf is 9999991"},
      {R"({"multipleOf":1e-10})", "decimals"},
      {R"({"multipleOf":1e300})", "multipleOf"},
      {R"({"properties":{"a":{"multipleOf":20001}}})", "at #/properties/a: multipleOf is 20001"},
      {R"({"allOf":[{"multipleOf":997},{"multipleOf":991}]})", "common multiple is 988027"},
      {R"({"allOf":[{"multipleOf":0.003},{"multipleOf":1000}]})", "common multiple"},
      {many + "}}", "add up to"}};
  for (const auto& [schema, complaint] : bad) {
    const auto state = compiler_.Compile(GrammarKind::kJsonSchema, schema);
    EXPECT_TRUE(absl::IsInvalidArgument(state.status())) << schema << ": " << state.status();
    EXPECT_THAT(std::string(state.status().message()), HasSubstr(complaint)) << schema;
  }
  for (const char* schema :
       {R"({"type":"number","multipleOf":0.01})", R"({"type":"integer","multipleOf":100})",
        R"({"type":"integer","multipleOf":9999})", R"({"type":"number","multipleOf":0.5})",
        R"({"allOf":[{"type":"integer","multipleOf":6},{"multipleOf":4}]})"}) {
    const auto state = compiler_.Compile(GrammarKind::kJsonSchema, schema);
    EXPECT_TRUE(state.ok()) << schema << ": " << state.status();
  }
}

TEST_F(GrammarTest, CompilingEndsWhenItIsNoLongerNeeded) {
  int asked = 0;
  const auto is_canceled = [&] { return ++asked > 0; };
  const auto state = compiler_.Compile(GrammarKind::kRegex, "[a-z]{1,500}x", is_canceled);
  EXPECT_TRUE(absl::IsCancelled(state.status())) << state.status();
  EXPECT_GT(asked, 0);
}

TEST_F(GrammarTest, AMaskEndsAtItsTimeLimit) {
  GrammarState state = Compile(GrammarKind::kLark, "start: s\ns: s s | /[a-z]/");
  EXPECT_TRUE(absl::IsDeadlineExceeded(state.Allowed(absl::ZeroDuration()).status()));
}

TEST_F(GrammarTest, TheMemoryOfAStateIsKnown) {
  const GrammarState state = Compile(GrammarKind::kRegex, "[a-z]{1,500}x");
  EXPECT_GT(state.bytes(), 1000u);
  EXPECT_LT(state.bytes(), size_t{8} << 20);
}

// Text of lazy rules is taken back after it matched. Captured text filled the memory.
TEST_F(GrammarTest, AttributesOfRulesAreRefused) {
  for (const char* rule : {"x[stop=\"b\"]: /[ab]{0,9}/", "x[lazy]: /[ab]{0,9}/",
                           "x[suffix=\"b\"]: /[ab]{0,9}/", "x[suffix=\"\"]: /[ab]{0,9}/",
                           "x[max_tokens=5]: /[ab]{0,9}/", "x[capture]: \"a\" x | \"b\"",
                           "x[capture=\"y\"]: /[ab]/", "x[temperature=0.5]: /[ab]{0,9}/"}) {
    const auto state =
        compiler_.Compile(GrammarKind::kLark, absl::StrCat("start: \"c\" x\n", rule));
    EXPECT_TRUE(absl::IsInvalidArgument(state.status())) << rule << ": " << state.status();
    EXPECT_THAT(std::string(state.status().message()), HasSubstr("are not supported")) << rule;
  }
}

TEST_F(GrammarTest, SpecialTokensMatchNoBytes) {
  GrammarState state = Compile(GrammarKind::kLark, "start: T\nT: ~\"foo\"");
  EXPECT_FALSE(Allows(state, kImStart));
  EXPECT_TRUE(Allows(state, kImEnd)) << "the empty text";
  ASSERT_TRUE(PushText(state, "foo").ok());
  EXPECT_FALSE(Allows(state, kImStart));
  EXPECT_FALSE(Allows(state, kImEnd)) << "the text must go on";
  EXPECT_TRUE(Allows(state, 'o'));
}

// A model may end answers with a token that its tokenizer calls ordinary text.
TEST_F(GrammarTest, TokensThatEndAnswersAreNotText) {
  const TokenId the = tokenizer_.Encode("the", false)->front();
  const auto compiler = GrammarCompiler::Create(tokenizer_, kVocabulary, {the});
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  auto state = compiler->Compile(GrammarKind::kRegex, "x.*y");
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_TRUE(PushText(*state, "x").ok());
  EXPECT_FALSE(Allows(*state, the));
  ASSERT_TRUE(PushText(*state, "y").ok());
  EXPECT_TRUE(Allows(*state, the));
}

TEST_F(GrammarTest, AModelWithoutAnEndTokenIsRefused) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(GrammarCompiler::Create(tokenizer_, kVocabulary, {}).status()));
}

}  // namespace
}  // namespace bastion::hub
