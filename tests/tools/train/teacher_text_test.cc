#include "tools/train/teach/teacher_text.h"

#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/match.h"
#include "tests/support/temp_folder.h"

namespace bastion::train {
namespace {

class TeacherTextTest : public ::testing::Test {
 protected:
  void WriteLines(const std::string& text) const {
    std::ofstream(folder_.path() + "/texts.jsonl", std::ios::binary) << text;
  }
  absl::Status ReadStatus() const { return ReadTeacherTexts(folder_.path(), 100).status(); }
  testing::TempFolder folder_;
};

TEST_F(TeacherTextTest, WhatIsAppendedIsRead) {
  ASSERT_TRUE(AppendTeacherTexts({{"a", {1, 2, 3}, 1}}, folder_.path()).ok());
  ASSERT_TRUE(AppendTeacherTexts({{"b", {4, 5}, 2}}, folder_.path()).ok());
  const auto texts = ReadTeacherTexts(folder_.path(), 100);
  ASSERT_TRUE(texts.ok()) << texts.status();
  ASSERT_EQ(texts->size(), 2u);
  EXPECT_EQ((*texts)[0].id, "a");
  EXPECT_EQ((*texts)[0].tokens, (std::vector<TokenId>{1, 2, 3}));
  EXPECT_EQ((*texts)[0].written(), 2);
  EXPECT_EQ((*texts)[1].written(), 0);
}

TEST_F(TeacherTextTest, TheLineOfAKilledWriterIsLeftOutAndRemoved) {
  const std::string whole = R"({"id":"a","prompt_tokens":1,"token_ids":[1,2]})";
  WriteLines(whole + "\n" + whole.substr(0, 20));
  const auto texts = ReadTeacherTexts(folder_.path(), 100);
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_EQ(texts->size(), 1u);
  const auto lines = RepairTeacherTexts(folder_.path());
  ASSERT_TRUE(lines.ok()) << lines.status();
  EXPECT_EQ(*lines, 1);
  ASSERT_TRUE(AppendTeacherTexts({{"b", {4, 5}, 2}}, folder_.path()).ok());
  EXPECT_EQ(ReadTeacherTexts(folder_.path(), 100)->size(), 2u);
}

TEST_F(TeacherTextTest, AnErrorNamesTheFileAndTheLine) {
  const std::string good = R"({"id":"a","prompt_tokens":1,"token_ids":[1,2]})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"id":"a","prompt_tokens":1,"token_ids":[1,200]})", "token 200"},
      {R"({"id":"a","prompt_tokens":3,"token_ids":[1,2]})", "prompt_tokens is 3"},
      {R"({"id":"a","prompt_tokens":0,"token_ids":[1,2]})", "prompt_tokens is 0"},
      {R"({"id":"a","token_ids":[1,2]})", "prompt_tokens"},
      {R"({"id":"a","prompt_tokens":1,"token_ids":[1,2.5]})", "token 2.5"},
      {R"({"id":"a","prompt_tokens":1,"token_ids":[1,4294967297]})", "token 4294967297"},
      {R"({"id":"a","prompt_tokens":1,"token_ids":[1,18446744073709551615]})", "token 18446744"},
      {R"({"id":"a","prompt_tokens":1.5,"token_ids":[1,2]})", "prompt_tokens is 1.5"},
      {R"({"id":"a","prompt_tokens":true,"token_ids":[1,2]})", "prompt_tokens is true"},
      {"nonsense", "JSON object"},
  };
  for (const auto& [line, message] : cases) {
    WriteLines(good + "\n" + line + "\n");
    const absl::Status status = ReadStatus();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << line;
    EXPECT_TRUE(absl::StrContains(status.message(), "texts.jsonl:2")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
  }
}

TEST_F(TeacherTextTest, AFolderWithoutTextSaysWhatWritesIt) {
  EXPECT_TRUE(absl::IsNotFound(ReadStatus()));
  EXPECT_TRUE(absl::StrContains(ReadStatus().message(), "bastion-train teach"));
}

TEST_F(TeacherTextTest, TheInfoIsReadAsItWasWritten) {
  const TeacherInfo info = {"abc", "bf16", "bf16", "p.jsonl", "{}", {0, 0.8f}, 3, 160};
  ASSERT_TRUE(WriteTeacherInfo(info, folder_.path()).ok());
  const auto read = ReadTeacherInfo(folder_.path());
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, info);
}

TEST(FrequentTokensTest, CountsWhatTheTargetWrote) {
  const std::vector<TeacherText> texts = {{"a", {5, 5, 5, 2, 7}, 3}, {"b", {1, 7, 2, 4}, 1}};
  EXPECT_EQ(FrequentTokens(texts, 9, 2), (std::vector<TokenId>{2, 7}));
  // Token 4 occurs once. Token 0 is the lowest of those that do not occur.
  EXPECT_EQ(FrequentTokens(texts, 9, 4), (std::vector<TokenId>{0, 2, 4, 7}));
  EXPECT_EQ(FrequentTokens(texts, 9, 0), std::vector<TokenId>());
}

TEST(UsefulLengthTest, TextWithoutRepetitionIsKeptWhole) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 100; ++i) tokens.push_back(i);
  EXPECT_EQ(UsefulLength(tokens), 100);
  EXPECT_EQ(UsefulLength({}), 0);
}

TEST(UsefulLengthTest, ALoopIsCutWhereItBegins) {
  std::vector<TokenId> tokens;
  for (int i = 0; i < 60; ++i) tokens.push_back(i);
  for (int i = 0; i < 60; ++i) tokens.push_back(i % 3);
  // The first window of 32 with at most 10 distinct sequences of four tokens begins at 56: the last
  // four tokens of the text, and the loop.
  EXPECT_EQ(UsefulLength(tokens), 56 + 16);
}

}  // namespace
}  // namespace bastion::train
