#include "orchestrator/text/stop_strings.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

StopStrings Make(std::vector<std::string> stops) { return *StopStrings::Create(std::move(stops)); }

TEST(StopStringsTest, WithoutStopStringsAllTextPasses) {
  StopStrings stops = Make({});
  EXPECT_EQ(stops.Push("abc"), "abc");
  EXPECT_EQ(stops.TakeHeldText(), "");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStringsTest, FindsAMatchInsideOnePiece) {
  StopStrings stops = Make({"\n\n", "END"});
  EXPECT_EQ(stops.Push("text END more"), "text ");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.match(), "END");
  EXPECT_EQ(stops.Push("after"), "");
  EXPECT_EQ(stops.TakeHeldText(), "");
}

TEST(StopStringsTest, FindsAMatchAcrossSeveralPieces) {
  StopStrings stops = Make({"END"});
  EXPECT_EQ(stops.Push("xE"), "x");
  EXPECT_EQ(stops.Push("N"), "");
  EXPECT_EQ(stops.Push("D!"), "");
  EXPECT_EQ(stops.match(), "END");
}

TEST(StopStringsTest, HeldTextThatIsNotAStopStringIsReturned) {
  StopStrings stops = Make({"END"});
  EXPECT_EQ(stops.Push("EN"), "");
  EXPECT_EQ(stops.Push("EN"), "EN");
  EXPECT_EQ(stops.Push("x"), "ENx");
  EXPECT_EQ(stops.Push("E"), "");
  EXPECT_EQ(stops.TakeHeldText(), "E");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStringsTest, FindsAStopStringThatOverlapsItself) {
  StopStrings stops = Make({"aab"});
  EXPECT_EQ(stops.Push("aaa"), "a");
  EXPECT_EQ(stops.Push("b"), "");
  EXPECT_EQ(stops.match(), "aab");
}

TEST(StopStringsTest, TheStopStringThatEndsFirstWins) {
  StopStrings stops = Make({"abcd", "bc"});
  EXPECT_EQ(stops.Push("abcd"), "a");
  EXPECT_EQ(stops.match(), "bc");
}

TEST(StopStringsTest, TheLongestWinsIfSeveralEndTogether) {
  StopStrings stops = Make({"c", "bc"});
  EXPECT_EQ(stops.Push("abc"), "a");
  EXPECT_EQ(stops.match(), "bc");
}

TEST(StopStringsTest, FindsMultibyteStopStrings) {
  StopStrings stops = Make({"日本"});
  EXPECT_EQ(stops.Push("x日"), "x");
  EXPECT_EQ(stops.Push("曜"), "日曜");
  EXPECT_EQ(stops.Push("日本"), "");
  EXPECT_EQ(stops.match(), "日本");
}

TEST(StopStringsTest, AnEmptyStopStringIsRefused) {
  const absl::Status status = StopStrings::Create({"a", ""}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("stop string 1 is empty"));
}

// The text before the first stop string, found by checking every end in turn.
std::string Expected(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (std::string_view(text).substr(0, end).ends_with(stop)) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopStringsTest, TheSplitIntoPiecesDoesNotMatter) {
  std::mt19937 random(5);
  const auto word = [&](int max_length) {
    std::string text(1 + random() % max_length, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> list = {word(4), word(6)};
    const std::string text = word(30);
    StopStrings stops = Make(list);
    std::string got;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 5;
      got += stops.Push(std::string_view(text).substr(at, n));
      at += n;
    }
    got += stops.TakeHeldText();
    EXPECT_EQ(got, Expected(text, list)) << text << " stops " << list[0] << " " << list[1];
  }
}

}  // namespace
}  // namespace bastion
