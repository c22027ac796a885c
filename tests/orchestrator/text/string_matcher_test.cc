#include "orchestrator/text/string_matcher.h"

#include <algorithm>
#include <random>
#include <string_view>

#include "gtest/gtest.h"

namespace bastion {
namespace {

// The longest proper prefix of `pattern` with which `text` ends, by comparing all of them.
size_t NaiveBegun(std::string_view text, std::string_view pattern) {
  for (size_t n = std::min(text.size(), pattern.size() - 1); n > 0; --n) {
    if (text.ends_with(pattern.substr(0, n))) return n;
  }
  return 0;
}

std::string RandomText(std::mt19937& random, size_t size, int letters) {
  std::string text(size, 'a');
  for (char& c : text) c = static_cast<char>('a' + random() % letters);
  return text;
}

TEST(StringMatcherTest, EqualsTheNaiveSearchOnRandomTexts) {
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    const int letters = 1 + static_cast<int>(random() % 3);
    const std::string pattern = RandomText(random, 1 + random() % 8, letters);
    const std::string text = RandomText(random, 60, letters);
    StringMatcher matcher(pattern);
    for (size_t end = 1; end <= text.size(); ++end) {
      const std::string_view seen = std::string_view(text).substr(0, end);
      ASSERT_EQ(matcher.Push(text[end - 1]), seen.ends_with(pattern)) << seen << " " << pattern;
      ASSERT_EQ(matcher.begun(), NaiveBegun(seen, pattern)) << seen << " " << pattern;
    }
  }
}

TEST(StringMatcherTest, FindsOccurrencesThatOverlap) {
  StringMatcher matcher("aba");
  std::string found;
  for (const char c : std::string("ababa")) found += matcher.Push(c) ? 'y' : 'n';
  EXPECT_EQ(found, "nnyny");
}

TEST(StringMatcherTest, BytesAreNotSigned) {
  StringMatcher matcher("\xff\x80");
  EXPECT_FALSE(matcher.Push('\xff'));
  EXPECT_TRUE(matcher.Push('\x80'));
}

TEST(StringMatcherTest, CopiesFollowTheirOwnText) {
  StringMatcher first("ab");
  EXPECT_FALSE(first.Push('a'));
  StringMatcher second = first;
  EXPECT_FALSE(second.Push('x'));
  EXPECT_TRUE(first.Push('b'));
  EXPECT_EQ(second.begun(), 0u);
}

}  // namespace
}  // namespace bastion
