#include "tools/bench/same_texts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

LoadRun RunWith(const std::vector<TokenId>& output) {
  PromptMeasurement request;
  request.id = "p0";
  request.output = output;
  return {{request}};
}

// Both policies generate the same four tokens.
std::vector<LevelResults> SameTexts() {
  return {{{.concurrency = 1},
           {{"ar", {RunWith({5, 6, 7, 8})}}, {"fixed:8", {RunWith({5, 6, 7, 8})}}}}};
}

TEST(SameTextsTest, EqualTextsPass) {
  EXPECT_TRUE(CheckSameTexts(SameTexts()).ok());
  EXPECT_EQ(FindDifferentTexts(SameTexts()).outputs, 2);
}

TEST(SameTextsTest, ADifferentTokenIsReported) {
  std::vector<LevelResults> levels = SameTexts();
  levels[0].arms[1].rounds[0].requests[0].output[2] = 9;
  const absl::Status status = CheckSameTexts(levels);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_EQ(status.message(),
            "1 of 2 outputs differ: prompt p0: fixed:8 and ar first differ at output token 2 (4 "
            "and 4 tokens)");
}

TEST(SameTextsTest, AShorterTextIsDifferent) {
  std::vector<LevelResults> levels = SameTexts();
  levels[0].arms[1].rounds[0].requests[0].output.pop_back();
  EXPECT_TRUE(absl::IsDataLoss(CheckSameTexts(levels)));
}

TEST(SameTextsTest, AnotherLimitIsAnotherText) {
  std::vector<LevelResults> levels = SameTexts();
  PromptMeasurement& request = levels[0].arms[1].rounds[0].requests[0];
  request.output.pop_back();
  request.max_new_tokens = 3;
  EXPECT_TRUE(CheckSameTexts(levels).ok());
}

TEST(SameTextsTest, ADifferentTokenAtAnotherLevelIsReported) {
  std::vector<LevelResults> levels = SameTexts();
  const std::vector<ArmResults> arms = {{"ar", {RunWith({5, 6, 7, 8}), RunWith({5, 9, 7, 8})}}};
  levels.push_back({{.concurrency = 8}, arms});
  EXPECT_THAT(std::string(CheckSameTexts(levels).message()), HasSubstr("ar at concurrency 8"));
}

TEST(SameTextsTest, DifferentOutputsAreCounted) {
  std::vector<LevelResults> levels = SameTexts();
  const LoadRun same = RunWith({5, 6, 7, 8}), other = RunWith({5, 9, 7, 8});
  const std::vector<ArmResults> arms = {{"ar", {other, same}}, {"fixed:8", {other, same}}};
  levels.push_back({{.concurrency = 8}, arms});
  const TextDifferences found = FindDifferentTexts(levels);
  EXPECT_EQ(found.outputs, 6);
  EXPECT_EQ(found.different, 2);
}

TEST(SameTextsTest, DifferentNumbersOfRequestsAreReportedUnlessExpected) {
  std::vector<LevelResults> levels = SameTexts();
  levels[0].arms[1].rounds.push_back(levels[0].arms[1].rounds[0]);
  EXPECT_TRUE(absl::IsInternal(CheckSameTexts(levels)));
  EXPECT_TRUE(CheckSameTexts(levels, /*counts_differ=*/true).ok());
}

}  // namespace
}  // namespace bastion
