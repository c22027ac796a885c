#include "drafter_service/replay/known_texts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointee;

TEST(KnownTextsTest, FindsALongerTextThatBeginsAlike) {
  KnownTexts texts;
  texts.Add({1, 2, 3});
  texts.Add({1, 2, 4, 5});
  texts.Add({2});
  EXPECT_THAT(texts.Find({1, 2, 4}), Pointee(ElementsAre(1, 2, 4, 5)));
  EXPECT_THAT(texts.Find({1, 2}), Pointee(ElementsAre(1, 2, 3)));
  EXPECT_EQ(texts.Find({1, 2, 3}), nullptr);  // Nothing follows.
  EXPECT_EQ(texts.Find({1, 3}), nullptr);
  EXPECT_EQ(texts.Find({3}), nullptr);
  texts.Clear();
  EXPECT_EQ(texts.Find({1, 2}), nullptr);
}

TEST(KnownTextsTest, ReadsLinesOfTokens) {
  const testing::TempFolder folder;
  const std::string path = folder.File("texts.jsonl");
  folder.Write("texts.jsonl",
               "{\"id\": \"a\", \"prompt_tokens\": 1, \"token_ids\": "
               "[1, 2]}\n{\"token_ids\": [3, 4, 5]}\n");
  const auto texts = KnownTexts::Read(path);
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_THAT(texts->Find({3}), Pointee(ElementsAre(3, 4, 5)));
}

TEST(KnownTextsTest, ErrorsNameTheFileAndTheLine) {
  const testing::TempFolder folder;
  const std::string path = folder.File("texts.jsonl");
  folder.Write("texts.jsonl", "{\"token_ids\": [1]}\nnonsense\n");
  EXPECT_THAT(KnownTexts::Read(path).status().message(), HasSubstr("line 2 must be a JSON object"));
  folder.Write("texts.jsonl", "{\"token_ids\": [\"x\"]}\n");
  EXPECT_THAT(KnownTexts::Read(path).status().message(), HasSubstr("line 1: 'token_ids' must be"));
  EXPECT_TRUE(absl::IsNotFound(KnownTexts::Read(folder.File("absent")).status()));
}

}  // namespace
}  // namespace bastion::drafter
