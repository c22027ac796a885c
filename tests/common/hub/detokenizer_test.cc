#include "common/hub/detokenizer.h"

#include <random>
#include <vector>

#include "common/hub/utf8.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::hub {
namespace {

using bastion::testing::kEndOfText;
using bastion::testing::kFirstMerge;
using bastion::testing::kImEnd;

// E6 97, the first two bytes of 日 (E6 97 A5).
constexpr TokenId kIncompleteCharacter = kFirstMerge + 4;
constexpr const char* kReplacement = "\xEF\xBF\xBD";

const Tokenizer& ByteLevelTokenizer() {
  static const auto* const tokenizer =
      new Tokenizer(bastion::testing::LoadTokenizer(bastion::testing::ByteLevelTokenizerJson()));
  return *tokenizer;
}

TEST(DetokenizerTest, WholeCharactersAreReturnedImmediately) {
  Detokenizer detokenizer(ByteLevelTokenizer());
  EXPECT_EQ(detokenizer.Push({kFirstMerge + 1, kFirstMerge + 2}), "the the");
  EXPECT_EQ(detokenizer.Push({kFirstMerge + 3}), "é");
  EXPECT_EQ(detokenizer.Push({}), "");
  EXPECT_EQ(detokenizer.FlushIncomplete(), "");
}

TEST(DetokenizerTest, ASplitCharacterIsHeldUntilItIsComplete) {
  Detokenizer detokenizer(ByteLevelTokenizer());
  EXPECT_EQ(detokenizer.Push({'a', kIncompleteCharacter}), "a");
  EXPECT_EQ(detokenizer.Push({0xA5, 'b'}), "日b");
  EXPECT_EQ(detokenizer.FlushIncomplete(), "");
}

TEST(DetokenizerTest, AnIncompleteCharacterBeforeAnotherIsReplaced) {
  Detokenizer detokenizer(ByteLevelTokenizer());
  EXPECT_EQ(detokenizer.Push({kIncompleteCharacter}), "");
  EXPECT_EQ(detokenizer.Push({'z'}), std::string(kReplacement) + "z");
}

TEST(DetokenizerTest, AnIncompleteCharacterAtTheEndIsReplaced) {
  Detokenizer detokenizer(ByteLevelTokenizer());
  EXPECT_EQ(detokenizer.Push({'a', kIncompleteCharacter}), "a");
  EXPECT_EQ(detokenizer.FlushIncomplete(), kReplacement);
  EXPECT_EQ(detokenizer.FlushIncomplete(), "");
}

TEST(DetokenizerTest, InvalidBytesAreReplaced) {
  Detokenizer detokenizer(ByteLevelTokenizer());
  EXPECT_EQ(detokenizer.Push({0xFF, 0x80}), std::string(kReplacement) + kReplacement);
}

TEST(DetokenizerTest, EachByteTokenDecodesToItsByte) {
  for (int second = 0x80; second <= 0xBF; ++second) {
    Detokenizer detokenizer(ByteLevelTokenizer());
    const std::string expected = {static_cast<char>(0xC3), static_cast<char>(second)};
    EXPECT_EQ(detokenizer.Push({0xC3, second}), expected);
  }
  for (int byte = 0; byte < 0x80; ++byte) {
    Detokenizer detokenizer(ByteLevelTokenizer());
    EXPECT_EQ(detokenizer.Push({byte}), std::string(1, static_cast<char>(byte)));
  }
}

TEST(DetokenizerTest, SpecialTokensAreSkipped) {
  Detokenizer detokenizer(ByteLevelTokenizer());
  EXPECT_EQ(detokenizer.Push({'a', kImEnd, 'b'}), "ab");
}

TEST(DetokenizerTest, IdsOutsideTheVocabularyAddNothing) {
  Detokenizer detokenizer(ByteLevelTokenizer());
  EXPECT_EQ(detokenizer.Push({'a', 5000, 'b', -1}), "ab");
}

// For random ids in random groups, each piece is valid UTF-8, and all pieces together equal the
// text decoded from all ids.
TEST(DetokenizerTest, TheGroupingOfTheIdsDoesNotMatter) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::vector<TokenId> all;
    std::string text;
    Detokenizer detokenizer(ByteLevelTokenizer());
    for (int group = static_cast<int>(random() % 8); group >= 0; --group) {
      std::vector<TokenId> ids(random() % 6);
      for (TokenId& id : ids) {
        id =
            static_cast<TokenId>(random() % 2 ? 128 + random() % 128 : random() % (kEndOfText + 1));
      }
      const std::string piece = detokenizer.Push(ids);
      EXPECT_EQ(FindInvalidUtf8(piece), std::string::npos);
      text += piece;
      all.insert(all.end(), ids.begin(), ids.end());
    }
    text += detokenizer.FlushIncomplete();
    EXPECT_EQ(text, *ByteLevelTokenizer().Decode(all, /*skip_special=*/true));
  }
}

}  // namespace
}  // namespace bastion::hub
