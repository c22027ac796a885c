#include "common/base/peer_text.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(PeerTextTest, PrintableTextStays) {
  for (const char* text : {"", "the drafter \"x\" has 3 layers", "a\\b 'c'", "größe 日本 😀"}) {
    EXPECT_EQ(PeerText(text), text);
  }
}

TEST(PeerTextTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(PeerText("a\nb\x1b[2J\r\t\x7f"), "a\\x0ab\\x1b[2J\\x0d\\x09\\x7f");
  EXPECT_EQ(PeerText(absl::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(PeerText("next\u0085line\u2028end"),
            "next\\xc2\\x85line\\xe2\\x80\\xa8"
            "end");
  EXPECT_EQ(PeerText("\u202egnp.exe"), "\\xe2\\x80\\xaegnp.exe");
}

TEST(PeerTextTest, InvalidBytesAreEscaped) {
  EXPECT_EQ(PeerText("\xff"
                     "a"),
            "\\xffa");
  EXPECT_EQ(PeerText("\xc3"), "\\xc3");                             // Cut short.
  EXPECT_EQ(PeerText("\xc0\xaf"), "\\xc0\\xaf");                    // A longer form of "/".
  EXPECT_EQ(PeerText("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // A surrogate.
  EXPECT_EQ(PeerText("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // Above U+10FFFF.
  EXPECT_EQ(PeerText("\xe2(\xa1"), "\\xe2(\\xa1");
}

TEST(PeerTextTest, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(PeerText(std::string(512, 'a')), std::string(512, 'a'));
  EXPECT_EQ(PeerText(std::string(513, 'a')), std::string(509, 'a') + "...");
  EXPECT_EQ(PeerText("abcdef", 5), "ab...");
  EXPECT_EQ(PeerText("äöü", 5), "ä...");
  EXPECT_EQ(PeerText("\n\n", 5), "...");
  EXPECT_EQ(PeerName(std::string(1 << 20, '\n')).size(), 63 * 4 + 3);
}

TEST(PeerTextTest, AProcessedTextStaysAsItIs) {
  for (const std::string& text :
       {std::string(600, '\x1b'), std::string("a\nb\xff"), std::string(2000, 'x')}) {
    EXPECT_EQ(PeerText(PeerText(text)), PeerText(text));
  }
}

}  // namespace
}  // namespace bastion
