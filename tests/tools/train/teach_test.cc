// The target writes teacher text with the serving engine.
#include "tools/train/teach/teach.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"
#include "tools/train/teach/teacher_text.h"

namespace bastion::train {
namespace {

constexpr int kPrompts = 22;
constexpr int kVocabulary = 200;

class TeachTest : public ::testing::Test {
 protected:
  TeachTest() {
    std::ofstream prompts(folder_.path() + "/prompts.jsonl");
    for (int i = 0; i < kPrompts; ++i) {
      prompts << "{\"id\": \"p" << i << "\", \"token_ids\": [" << 2 + i << ", 5, " << 9 + i
              << "]}\n";
    }
  }
  TeachOptions Options(const std::string& out) const {
    TeachOptions options;
    options.target = testing::GoldenFolder("gqa1_tied_draft1") + "/target";
    options.formats = {.weights = "fp32"};
    options.device.threads = 1;
    options.prompts = folder_.path() + "/prompts.jsonl";
    options.out = folder_.path() + "/" + out;
    options.max_new_tokens = 12;
    options.live = 2;
    return options;
  }
  static std::string Texts(const TeachOptions& options) {
    std::ifstream file(options.out + "/texts.jsonl", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  testing::TempFolder folder_;
};

TEST_F(TeachTest, TheTextDoesNotDependOnHowManyTextsAreLive) {
  TeachOptions few = Options("few"), many = Options("many");
  many.live = 7;
  ASSERT_TRUE(Teach(few).ok());
  ASSERT_TRUE(Teach(many).ok());
  EXPECT_EQ(Texts(few), Texts(many));
  const auto texts = ReadTeacherTexts(few.out, kVocabulary);
  ASSERT_TRUE(texts.ok()) << texts.status();
  ASSERT_EQ(texts->size(), static_cast<size_t>(kPrompts));
  for (const TeacherText& text : *texts) {
    EXPECT_EQ(text.prompt_tokens, 3);
    EXPECT_GT(text.written(), 0);
    EXPECT_LE(text.written(), 12);
  }
}

TEST_F(TeachTest, AStoppedAndContinuedRunWritesTheTextOfAnUndisturbedOne) {
  const TeachOptions undisturbed = Options("undisturbed"), stopped = Options("stopped");
  ASSERT_TRUE(Teach(undisturbed).ok());
  ASSERT_TRUE(Teach(stopped).ok());
  // The writer was killed in the middle of line 10.
  const std::string whole = Texts(stopped);
  size_t end = 0;
  for (int i = 0; i < 9; ++i) end = whole.find('\n', end) + 1;
  std::ofstream(stopped.out + "/texts.jsonl", std::ios::binary) << whole.substr(0, end + 15);
  ASSERT_TRUE(Teach(stopped).ok());
  EXPECT_EQ(Texts(stopped), Texts(undisturbed));
}

TEST_F(TeachTest, PromptsAtTheSameTemperatureAreSampledWithTheirOwnSeeds) {
  std::ofstream prompts(folder_.path() + "/prompts.jsonl", std::ios::trunc);
  for (int i = 0; i < 8; ++i)
    prompts << R"({"id": "p", "token_ids": [2, 5, 9]})"
            << "\n";
  prompts.close();
  TeachOptions options = Options("sampled");
  options.temperatures = {1.5f};
  ASSERT_TRUE(Teach(options).ok());
  const auto texts = ReadTeacherTexts(options.out, kVocabulary);
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_NE((*texts)[0].tokens, (*texts)[1].tokens);
}

TEST_F(TeachTest, OtherOptionsDoNotMixIntoAFolder) {
  TeachOptions options = Options("mixed");
  ASSERT_TRUE(Teach(options).ok());
  options.seed = 2;
  const absl::Status status = Teach(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "teacher.json")) << status;
}

TEST_F(TeachTest, APromptThatLeavesNoRoomIsRefusedByLength) {
  TeachOptions options = Options("long");
  options.max_new_tokens = 1 << 20;
  const absl::Status status = Teach(options);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "--max_new_tokens")) << status;
}

}  // namespace
}  // namespace bastion::train
