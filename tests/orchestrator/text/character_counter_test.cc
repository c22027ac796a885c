#include "orchestrator/text/character_counter.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "common/hub/detokenizer.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion {
namespace {

TEST(CharacterCounterTest, PiecesBeginInTheirCharacters) {
  CharacterCounter counter;
  EXPECT_EQ(counter.Add("ab"), 0);
  EXPECT_EQ(counter.Add("\xE6\xBC"), 2);  // The parts of one character share its index.
  EXPECT_EQ(counter.Add("\xA2"
                        "c"),
            2);
  EXPECT_EQ(counter.Add(""), 4);
  EXPECT_EQ(counter.Add("\xF0\x9F"), 4);
  EXPECT_EQ(counter.Add("d"), 5);  // Index 4 is U+FFFD.
  EXPECT_EQ(counter.Add("\x80\x80"), 6);
  EXPECT_EQ(counter.Add("e"), 8);
}

// Random bytes, many of them parts of characters.
std::vector<TokenId> RandomBytes(std::mt19937& random) {
  constexpr TokenId kLeads[] = {'a', 0xC1, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF};
  std::vector<TokenId> bytes(1 + random() % 12);
  for (TokenId& byte : bytes) {
    byte = random() % 3 == 0 ? kLeads[random() % std::size(kLeads)]
                             : static_cast<TokenId>(0x80 + random() % 0x40);
  }
  return bytes;
}

TEST(CharacterCounterTest, CountsTheCharactersOfTheDetokenizer) {
  const hub::Tokenizer tokenizer = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::vector<TokenId> bytes = RandomBytes(random);
    CharacterCounter counter;
    for (const TokenId byte : bytes) (void)counter.Add(tokenizer.TokenBytes(byte));
    hub::Detokenizer detokenizer(tokenizer);
    std::string text = detokenizer.Push(bytes);
    const auto count = std::count_if(text.begin(), text.end(), [](char byte) {
      return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    });
    EXPECT_EQ(counter.Add(""), count) << i;
  }
}

}  // namespace
}  // namespace bastion
