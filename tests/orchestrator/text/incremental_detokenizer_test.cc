#include "orchestrator/text/incremental_detokenizer.h"

#include <random>
#include <vector>

#include "common/hub/utf8.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion {
namespace {

using testing::kEndOfText;
using testing::kFirstMerge;
using testing::kImEnd;

constexpr TokenId kTwoThirdsOfDay = kFirstMerge + 4;  // E6 97, the first bytes of 日 (E6 97 A5).
constexpr const char* kReplacement = "\xEF\xBF\xBD";

const hub::Tokenizer& Tokenizer() {
  static const auto* const tokenizer =
      new hub::Tokenizer(testing::LoadTokenizer(testing::ByteLevelTokenizerJson()));
  return *tokenizer;
}

TEST(IncrementalDetokenizerTest, WholeCharactersAreReturnedImmediately) {
  IncrementalDetokenizer detokenizer(Tokenizer());
  EXPECT_EQ(detokenizer.Push({kFirstMerge + 1, kFirstMerge + 2}), "the the");
  EXPECT_EQ(detokenizer.Push({kFirstMerge + 3}), "é");
  EXPECT_EQ(detokenizer.Push({}), "");
  EXPECT_EQ(detokenizer.FlushIncomplete(), "");
}

TEST(IncrementalDetokenizerTest, ASplitCharacterIsHeldUntilItIsComplete) {
  IncrementalDetokenizer detokenizer(Tokenizer());
  EXPECT_EQ(detokenizer.Push({'a', kTwoThirdsOfDay}), "a");
  EXPECT_EQ(detokenizer.Push({0xA5, 'b'}), "日b");
  EXPECT_EQ(detokenizer.FlushIncomplete(), "");
}

TEST(IncrementalDetokenizerTest, ACharacterCutOffByTheNextIsReplaced) {
  IncrementalDetokenizer detokenizer(Tokenizer());
  EXPECT_EQ(detokenizer.Push({kTwoThirdsOfDay}), "");
  EXPECT_EQ(detokenizer.Push({'z'}), std::string(kReplacement) + "z");
}

TEST(IncrementalDetokenizerTest, ACharacterCutOffByTheEndIsReplaced) {
  IncrementalDetokenizer detokenizer(Tokenizer());
  EXPECT_EQ(detokenizer.Push({'a', kTwoThirdsOfDay}), "a");
  EXPECT_EQ(detokenizer.FlushIncomplete(), kReplacement);
  EXPECT_EQ(detokenizer.FlushIncomplete(), "");
}

TEST(IncrementalDetokenizerTest, BytesThatBeginNoCharacterAreReplaced) {
  IncrementalDetokenizer detokenizer(Tokenizer());
  EXPECT_EQ(detokenizer.Push({0xFF, 0x80}), std::string(kReplacement) + kReplacement);
}

TEST(IncrementalDetokenizerTest, SpecialTokensAreSkippedOrKept) {
  IncrementalDetokenizer hidden(Tokenizer());
  EXPECT_EQ(hidden.Push({'a', kImEnd, 'b'}), "ab");
  IncrementalDetokenizer shown(Tokenizer(), /*skip_special=*/false);
  EXPECT_EQ(shown.Push({'a', kImEnd, 'b'}), "a<|im_end|>b");
}

TEST(IncrementalDetokenizerTest, IdsOfThePaddedVocabularyAddNothing) {
  IncrementalDetokenizer detokenizer(Tokenizer());
  EXPECT_EQ(detokenizer.Push({'a', 5000, 'b'}), "ab");
}

// For random ids in random groups, each piece is valid UTF-8, and all pieces together equal the
// text decoded from all ids.
TEST(IncrementalDetokenizerTest, TheGroupingOfTheIdsDoesNotMatter) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<TokenId> all;
    std::string text;
    IncrementalDetokenizer detokenizer(Tokenizer());
    for (int group = static_cast<int>(random() % 8); group >= 0; --group) {
      std::vector<TokenId> ids(random() % 6);
      for (TokenId& id : ids) {
        id =
            static_cast<TokenId>(random() % 2 ? 128 + random() % 128 : random() % (kEndOfText + 1));
      }
      const std::string piece = detokenizer.Push(ids);
      EXPECT_EQ(hub::FindInvalidUtf8(piece), std::string::npos);
      text += piece;
      all.insert(all.end(), ids.begin(), ids.end());
    }
    text += detokenizer.FlushIncomplete();
    EXPECT_EQ(text, *Tokenizer().Decode(all, /*skip_special=*/true));
  }
}

}  // namespace
}  // namespace bastion
