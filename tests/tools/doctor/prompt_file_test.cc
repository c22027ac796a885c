#include "tools/doctor/prompt_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::doctor {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PromptFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<v1::GenerateRequest>> Read(const std::string& content) {
    folder_.Write("prompts.jsonl", content);
    return ReadPrompts(folder_.File("prompts.jsonl"));
  }
  testing::TempFolder folder_;
};

TEST_F(PromptFileTest, ReadsTextsAndTokens) {
  const auto prompts =
      Read("{\"id\": \"a\", \"text\": \"def f(\"}\n\n{\"id\": \"b\", \"token_ids\": [5, 6]}\n");
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  ASSERT_EQ(prompts->size(), 2u);
  EXPECT_EQ(prompts->at(0).text(), "def f(");
  EXPECT_THAT(prompts->at(1).tokens().ids(), ElementsAre(5, 6));
}

TEST_F(PromptFileTest, ABadLineIsNamed) {
  for (const std::string line : {"nonsense", "{\"id\": \"a\"}", "{\"text\": 5}", "[1]",
                                 "{\"token_ids\": [-1]}", "{\"token_ids\": [3000000000]}"}) {
    const auto prompts = Read("{\"text\": \"ok\"}\n" + line + "\n");
    EXPECT_TRUE(absl::IsInvalidArgument(prompts.status())) << line;
    EXPECT_THAT(std::string(prompts.status().message()), HasSubstr("prompts.jsonl:2: "));
  }
}

TEST_F(PromptFileTest, AFileWithoutPromptsIsAnError) {
  EXPECT_TRUE(absl::IsInvalidArgument(Read("\n").status()));
  EXPECT_TRUE(absl::IsNotFound(ReadPrompts(folder_.File("missing")).status()));
}

}  // namespace
}  // namespace bastion::doctor
