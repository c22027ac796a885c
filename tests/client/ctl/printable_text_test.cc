#include "client/ctl/printable_text.h"

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(PrintableText, VisibleTextHasNoControlCharacters) {
  EXPECT_EQ(VisibleText("\x1b[2J\x07"), "\\x1b[2J\\x07");
  EXPECT_EQ(VisibleText(" a\n\tb\r"), "·a\\n\\tb\\r");
  EXPECT_EQ(VisibleText("\x7f"), "\\x7f");
  EXPECT_EQ(VisibleText("\xc2\x9b"
                        "31m"),
            "\\u{9b}31m")
      << "CSI as one character";
}

TEST(PrintableText, VisibleTextIsUnambiguous) {
  EXPECT_EQ(VisibleText("\\n"), "\\\\n");
  EXPECT_EQ(VisibleText("·"), "\\u{b7}");
}

TEST(PrintableText, CharactersThatReorderOrHideTextAreEscaped) {
  EXPECT_EQ(VisibleText("a\u202E"
                        "b"),
            "a\\u{202e}b");
  EXPECT_EQ(VisibleText("a\u200B\uFEFF\U000E0041"), "a\\u{200b}\\u{feff}\\u{e0041}");
  EXPECT_EQ(PrintableText("a\u202E"
                          "b\u2066"),
            "a\\u{202e}b\\u{2066}");
}

TEST(PrintableText, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(VisibleText("\xff"), "\\xff");
  EXPECT_EQ(VisibleText("\xc3"), "\\xc3") << "cut";
  EXPECT_EQ(VisibleText("\xc3("), "\\xc3(") << "no continuation";
  EXPECT_EQ(VisibleText("\xc0\x9b"), "\\xc0\\x9b") << "overlong";
  EXPECT_EQ(VisibleText("\xe0\x82\x9b"), "\\xe0\\x82\\x9b") << "overlong";
  EXPECT_EQ(VisibleText("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "surrogate";
  EXPECT_EQ(VisibleText("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "above U+10FFFF";
}

TEST(PrintableText, LettersOfAllScriptsStay) {
  const char* const text = "naïve→日本語🙂";
  EXPECT_EQ(VisibleText(text), text);
  EXPECT_EQ(PrintableText(text), text);
}

TEST(PrintableText, PrintableTextKeepsItsLayout) {
  EXPECT_EQ(PrintableText("if a:\n\treturn '\\n'\n"), "if a:\n\treturn '\\n'\n");
  EXPECT_EQ(PrintableText("a\r\x1b]0;title\x07"), "a\\r\\x1b]0;title\\x07");
}

TEST(PrintableText, ALongTextIsCutBetweenCharacters) {
  EXPECT_EQ(Shortened("日本語", 3), "日本語");
  EXPECT_EQ(Shortened("日本語", 2), "日…");
  EXPECT_EQ(Shortened("abcdef", 4), "abc…");
  EXPECT_EQ(Shortened("", 1), "");
}

}  // namespace
}  // namespace bastion
