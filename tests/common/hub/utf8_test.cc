#include "common/hub/utf8.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::hub {
namespace {

using ::testing::HasSubstr;
constexpr size_t kNone = std::string_view::npos;

TEST(Utf8Test, AcceptsCharactersOfEveryLength) {
  for (const std::string_view text : {"a", "é!", "日本", "🚀"}) {
    EXPECT_EQ(FindInvalidUtf8(text), kNone) << text;
  }
  EXPECT_EQ(FindInvalidUtf8(std::string_view("\0", 1)), kNone);
}

TEST(Utf8Test, RejectsInvalidBytes) {
  for (const std::string_view bytes :
       {"\x80", "\xFF", "\xC0\x80" /* overlong */, "\xE0\x80\x80" /* overlong */,
        "\xF0\x80\x80" /* overlong */, "\xED\xA0\x80" /* surrogate */,
        "\xF4\x90\x80" /* above U+10FFFF */, "\xF5\x80\x80", "\xE6\x97z" /* cut off */, "\xC3",
        "\xE6\x97", "\xF0\x9F\x9A"}) {
    EXPECT_EQ(FindInvalidUtf8(bytes), 0u) << bytes;
  }
}

TEST(Utf8Test, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8(""), kNone);
  EXPECT_EQ(FindInvalidUtf8("naïve 日本 🚀"), kNone);
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
