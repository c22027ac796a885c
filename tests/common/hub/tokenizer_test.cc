#include "common/hub/tokenizer.h"

#include <random>
#include <thread>

#include "common/hub/detokenizer.h"
#include "common/hub/utf8.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::ByteLevelTokenizerJson;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::kEndOfText;
using testing::kFirstMerge;
using testing::kImEnd;
using testing::kImStart;
using testing::LoadTokenizer;
using testing::TempFolder;

const Tokenizer& ByteLevel() {
  static const auto* const tokenizer = new Tokenizer(LoadTokenizer(ByteLevelTokenizerJson()));
  return *tokenizer;
}

// Valid UTF-8 with characters of all lengths.
std::string RandomText(std::mt19937& random) {
  // The last code points with one, two, three and four bytes.
  constexpr char32_t kLast[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  std::string text;
  for (int n = static_cast<int>(random() % 40); n > 0; --n) {
    const char32_t code = random() % (kLast[random() % 4] + 1);
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    if (code < 0x80) {
      text += static_cast<char>(code);
      continue;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    text += static_cast<char>((0xF00 >> (more + 1) & 0xFF) | code >> (6 * more));
    for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (code >> (6 * i) & 0x3F));
  }
  return text;
}

std::string Detokenized(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  Detokenizer detokenizer(tokenizer);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Push({id});
  return text + detokenizer.FlushIncomplete();
}

TEST(TokenizerTest, EncodesMergesAndSingleBytes) {
  const auto ids = ByteLevel().Encode("the the é", false);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(*ids, ElementsAre(kFirstMerge + 1, kFirstMerge + 2, ' ', kFirstMerge + 3));
  EXPECT_EQ(*ByteLevel().Decode(*ids, false), "the the é");
}

TEST(TokenizerTest, RoundTripsRandomText) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::string text = RandomText(random);
    ASSERT_EQ(FindInvalidUtf8(text), std::string::npos);
    const auto ids = ByteLevel().Encode(text, false);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ByteLevel().Decode(*ids, false), text);
    EXPECT_EQ(Detokenized(ByteLevel(), *ids), text);
  }
}

TEST(TokenizerTest, EncodesAndDecodesSpecialTokens) {
  EXPECT_EQ(ByteLevel().vocabulary(), testing::kByteLevelVocabulary);
  EXPECT_EQ(ByteLevel().Find("<|im_end|>"), kImEnd);
  EXPECT_EQ(ByteLevel().Find("<|nothing|>"), std::nullopt);
  const auto ids = ByteLevel().Encode("<|im_start|>a<|im_end|>", false);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_THAT(*ids, ElementsAre(kImStart, 'a', kImEnd));
  EXPECT_EQ(*ByteLevel().Decode(*ids, true), "a");
  EXPECT_EQ(*ByteLevel().Decode(*ids, false), "<|im_start|>a<|im_end|>");
}

TEST(TokenizerTest, KnowsTheBytesOfEachToken) {
  for (TokenId byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(ByteLevel().TokenBytes(byte), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(ByteLevel().TokenBytes(*ByteLevel().Find("th")), "th");
  for (const TokenId id : {kImEnd, -1, 1 << 20}) EXPECT_EQ(ByteLevel().TokenBytes(id), "");
}

TEST(TokenizerTest, FindsSpecialTokensInATextWhereverTheyAre) {
  EXPECT_EQ(*ByteLevel().FindSpecial("a<|im_end|><|im_start|>b"), "<|im_start|>");
  for (const char* text : {"", "a", "<|im_end", "<|nothing|>"}) {
    EXPECT_EQ(*ByteLevel().FindSpecial(text), "") << text;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ByteLevel().FindSpecial("\xff").status()));
}

TEST(TokenizerTest, DecodeSkipsUnknownIdsAndRefusesNegativeIds) {
  EXPECT_EQ(*ByteLevel().Decode({'a', 100000, 'b'}, false), "ab");
  EXPECT_EQ(ByteLevel().Decode({-1}, false).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, RefusesTextThatIsNotUtf8) {
  const absl::Status status = ByteLevel().Encode("abc\xFF", false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("byte 3"));
  EXPECT_EQ(ByteLevel().Find("\xFF"), std::nullopt);
}

TEST(TokenizerTest, RoundTripsEmptyTextAndZeroBytes) {
  EXPECT_TRUE(ByteLevel().Encode("", true)->empty());
  EXPECT_EQ(*ByteLevel().Decode({}, true), "");
  const std::string text("a\0b", 3);
  EXPECT_EQ(*ByteLevel().Decode(*ByteLevel().Encode(text, false), true), text);
}

TEST(TokenizerTest, IsThreadSafe) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::mt19937 random(t);
      for (int round = 0; round < 50; ++round) {
        const std::string text = RandomText(random);
        EXPECT_EQ(*ByteLevel().Decode(*ByteLevel().Encode(text, false), false), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TokenizerTest, AddSpecialEnablesThePostProcessor) {
  json file = ByteLevelTokenizerJson();
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair",
       {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
      {"special_tokens",
       {{"<|im_start|>",
         {{"id", "<|im_start|>"}, {"ids", {kImStart}}, {"tokens", {"<|im_start|>"}}}}}}};
  const Tokenizer tokenizer = LoadTokenizer(file);
  EXPECT_THAT(*tokenizer.Encode("a", true), ElementsAre(kImStart, 'a'));
  EXPECT_THAT(*tokenizer.Encode("a", false), ElementsAre('a'));
}

TEST(TokenizerTest, TheTokenizerConfigMaySayWhichTokensEncloseAText) {
  const testing::TempFolder folder;
  folder.Write("tokenizer.json", ByteLevelTokenizerJson().dump());
  const auto encode = [&](const char* config) {
    folder.Write("tokenizer_config.json", config);
    return *Tokenizer::Load(folder.path())->Encode("a", /*add_special=*/true);
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(encode(R"({"bos_token": "<|im_start|>"})"), Ids({'a'}));
  EXPECT_EQ(encode(R"({"bos_token": "<|im_start|>", "add_bos_token": true})"),
            Ids({testing::kImStart, 'a'}));
  EXPECT_EQ(encode(R"({"eos_token": "<|im_end|>", "add_bos_token": true, "add_eos_token": true})"),
            Ids({'a', testing::kImEnd}));
  EXPECT_EQ(encode(R"({"bos_token": "<|im_start|>", "add_bos_token": false})"), Ids({'a'}));
}

TEST(TokenizerTest, IgnoresPaddingAndTruncationInTheFile) {
  json file = ByteLevelTokenizerJson();
  file["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  file["padding"] = {
      {"strategy", {{"Fixed", 6}}}, {"direction", "Right"}, {"pad_id", 0},
      {"pad_type_id", 0},           {"pad_token", "x"},     {"pad_to_multiple_of", 0}};
  const Tokenizer tokenizer = LoadTokenizer(file);
  EXPECT_EQ(tokenizer.Encode("abcd", false)->size(), 4u);
}

TEST(TokenizerTest, DecodesByteFallbackTokens) {
  json vocabulary = {{"<unk>", 0}, {"▁a", 1}, {"▁", 2}, {"a", 3}, {"b", 4}};
  for (const char* token : {"<0xE6>", "<0x97>", "<0xA5>"}) vocabulary[token] = vocabulary.size();
  json file;
  file["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  file["model"] = {{"type", "BPE"},
                   {"vocab", vocabulary},
                   {"merges", json::array({"▁ a"})},
                   {"unk_token", "<unk>"},
                   {"byte_fallback", true}};
  const Tokenizer tokenizer = LoadTokenizer(file);
  // The detokenizer treats every token as a continuation. The decoder strips only the first space
  // of a text.
  EXPECT_EQ(Detokenized(tokenizer, {1, 5, 6, 7, 4}), " a日b");
  EXPECT_THAT(*tokenizer.Encode("b日", false), ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(*tokenizer.Decode({1, 1, 5, 6, 7}, false), "a a日");
}

TEST(TokenizerTest, DecodesWordPieces) {
  json file;
  file["pre_tokenizer"] = {{"type", "Whitespace"}};
  file["decoder"] = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", false}};
  file["model"] = {{"type", "WordPiece"},
                   {"unk_token", "[UNK]"},
                   {"continuing_subword_prefix", "##"},
                   {"max_input_chars_per_word", 100},
                   {"vocab", {{"[UNK]", 0}, {"tree", 1}, {"##s", 2}}}};
  const Tokenizer tokenizer = LoadTokenizer(file);
  EXPECT_THAT(*tokenizer.Encode("tree trees", false), ElementsAre(1, 1, 2));
  EXPECT_EQ(Detokenized(tokenizer, {1, 2}), " trees");
}

TEST(TokenizerTest, DamagedFilesAreReported) {
  const TempFolder folder;
  EXPECT_EQ(Tokenizer::Load(folder.path()).status().code(), absl::StatusCode::kNotFound);
  const std::string whole = ByteLevelTokenizerJson().dump();
  for (const std::string& text :
       {std::string(), std::string("{}"), std::string("[]"), whole.substr(0, whole.size() / 2),
        std::string("{\"model\": \xFF}")}) {
    folder.Write("tokenizer.json", text);
    const absl::Status status = Tokenizer::Load(folder.path()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr(folder.File("tokenizer.json")));
  }
}

TEST(TokenizerTest, AMergeWithoutItsTokenIsReported) {
  json file = ByteLevelTokenizerJson();
  file["model"]["merges"].push_back({"q", "q"});
  const TempFolder folder;
  folder.Write("tokenizer.json", file.dump());
  EXPECT_THAT(Tokenizer::Load(folder.path()).status().message(),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("qq")));
}

TEST(TokenizerTest, RefusesAHugeId) {
  json file = ByteLevelTokenizerJson();
  file["model"]["vocab"]["far away"] = 4294967295u;
  const TempFolder folder;
  folder.Write("tokenizer.json", file.dump());
  EXPECT_THAT(Tokenizer::Load(folder.path()).status().message(), HasSubstr("4294967295"));
}

}  // namespace
}  // namespace bastion::hub
