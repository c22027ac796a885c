#include "common/hub/utf8.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::hub {
namespace {

using ::testing::HasSubstr;
using Kind = Utf8Front::Kind;

constexpr size_t kNowhere = std::string_view::npos;

void ExpectFront(std::string_view bytes, Kind kind, size_t length) {
  const Utf8Front front = ReadUtf8(bytes);
  EXPECT_EQ(front.kind, kind) << bytes;
  EXPECT_EQ(front.length, length) << bytes;
}

TEST(Utf8Test, ReadsWholeCharactersOfEveryLength) {
  ExpectFront("a", Kind::kCharacter, 1);
  ExpectFront(std::string_view("\0", 1), Kind::kCharacter, 1);
  ExpectFront("é!", Kind::kCharacter, 2);
  ExpectFront("日本", Kind::kCharacter, 3);
  ExpectFront("🚀", Kind::kCharacter, 4);
}

TEST(Utf8Test, ReadsIncompleteCharacters) {
  ExpectFront("", Kind::kIncomplete, 0);
  ExpectFront("\xC3", Kind::kIncomplete, 1);
  ExpectFront("\xE6\x97", Kind::kIncomplete, 2);
  ExpectFront("\xF0\x9F\x9A", Kind::kIncomplete, 3);
}

TEST(Utf8Test, ReadsBrokenBytes) {
  ExpectFront("\x80", Kind::kBroken, 1);
  ExpectFront("\xFF", Kind::kBroken, 1);
  ExpectFront("\xC0\x80", Kind::kBroken, 1);      // Overlong.
  ExpectFront("\xE0\x80\x80", Kind::kBroken, 1);  // Overlong.
  ExpectFront("\xF0\x80\x80", Kind::kBroken, 1);  // Overlong.
  ExpectFront("\xED\xA0\x80", Kind::kBroken, 1);  // Surrogate.
  ExpectFront("\xF4\x90\x80", Kind::kBroken, 1);  // Above U+10FFFF.
  ExpectFront("\xF5\x80\x80", Kind::kBroken, 1);
  ExpectFront("\xE6\x97z", Kind::kBroken, 2);  // Cut off by another character.
}

TEST(Utf8Test, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8(""), kNowhere);
  EXPECT_EQ(FindInvalidUtf8("naïve 日本 🚀"), kNowhere);
  EXPECT_EQ(FindInvalidUtf8("ab\xFF"), 2u);
  EXPECT_EQ(FindInvalidUtf8("é\xE6\x97"), 2u);
}

TEST(Utf8Test, CheckReportsTextAndOffset) {
  EXPECT_TRUE(CheckUtf8("fine", "the prompt").ok());
  const absl::Status status = CheckUtf8("ab\xFF", "the prompt");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("the prompt is not UTF-8 at byte 2 of 3"));
}

}  // namespace
}  // namespace bastion::hub
