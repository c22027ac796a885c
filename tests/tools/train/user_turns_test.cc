// A chat model writes what its users might ask.
#include "tools/train/teach/user_turns.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/match.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/prompts.h"

namespace bastion::train {
namespace {

constexpr char kTemplate[] =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
constexpr int kNewline = 206;  // The token "\n" of the demo pair.

// The demo target as a chat model whose turns end with the line.
class UserTurnsTest : public ::testing::Test {
 protected:
  UserTurnsTest() {
    const std::filesystem::path target = BASTION_SOURCE_DIR "/deploy/demo_model/target";
    for (const char* file :
         {"model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"}) {
      std::filesystem::create_symlink(target / file, folder_.File(file));
    }
    folder_.Write("chat_template.jinja", kTemplate);
    const nlohmann::json ends = {{"eos_token_id", {0, kNewline}}};
    folder_.Write("generation_config.json", ends.dump());
  }
  TurnsOptions Options(const std::string& out) const {
    TurnsOptions options;
    options.target = folder_.path();
    options.device.threads = 1;
    options.out = folder_.File(out);
    options.count = 12;
    options.max_new_tokens = 24;
    options.live = 5;
    return options;
  }
  static std::string ContentsOf(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  testing::TempFolder folder_;
};

TEST_F(UserTurnsTest, TheTargetBeginsWhereTheMessageOfTheUserBegins) {
  const auto text = TextBeforeUserTurn(folder_.path(), "{}");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text, "<|im_start|>user\n");
}

TEST_F(UserTurnsTest, ATemplateThatHidesTheMessageIsRefused) {
  folder_.Write("chat_template.jinja", "{{ messages[0].content | length }}");
  const auto text = TextBeforeUserTurn(folder_.path(), "{}");
  EXPECT_TRUE(absl::IsInvalidArgument(text.status())) << text.status();
}

TEST_F(UserTurnsTest, AModelWithoutATemplateIsRefused) {
  std::filesystem::remove(folder_.File("chat_template.jinja"));
  EXPECT_TRUE(absl::IsNotFound(TextBeforeUserTurn(folder_.path(), "{}").status()));
}

TEST_F(UserTurnsTest, TheTurnsArePromptsThatTeachCanRead) {
  ASSERT_TRUE(WriteUserTurns(Options("turns.jsonl")).ok());
  const auto prompts = LoadPrompts(folder_.File("turns.jsonl"), folder_.path());
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_FALSE(prompts->empty());
  std::ifstream file(folder_.File("turns.jsonl"));
  for (std::string line; std::getline(file, line);) {
    const std::string turn = nlohmann::json::parse(line)["messages"][0]["content"];
    EXPECT_FALSE(turn.empty());
    // Other tokens contain newlines too, so a turn may have one inside.
    EXPECT_FALSE(absl::EndsWith(turn, "\n")) << turn;
  }
  TurnsOptions again = Options("again.jsonl");
  again.live = 2;
  ASSERT_TRUE(WriteUserTurns(again).ok());
  EXPECT_EQ(ContentsOf(folder_.File("again.jsonl")), ContentsOf(folder_.File("turns.jsonl")));
}

TEST_F(UserTurnsTest, OtherSeedsWriteOtherTurns) {
  TurnsOptions first = Options("first.jsonl"), second = Options("second.jsonl");
  first.max_new_tokens = second.max_new_tokens = 48;
  second.seed = first.seed + 1;
  ASSERT_TRUE(WriteUserTurns(first).ok());
  ASSERT_TRUE(WriteUserTurns(second).ok());
  std::set<std::string> turns[2];
  for (const int i : {0, 1}) {
    std::ifstream file(folder_.File(i == 0 ? "first.jsonl" : "second.jsonl"));
    for (std::string line; std::getline(file, line);) {
      turns[i].insert(nlohmann::json::parse(line)["messages"][0]["content"].get<std::string>());
    }
  }
  ASSERT_FALSE(turns[0].empty());
  int shared = 0;
  for (const std::string& turn : turns[0]) shared += static_cast<int>(turns[1].count(turn));
  EXPECT_LE(2 * shared, static_cast<int>(turns[0].size()));
}

TEST_F(UserTurnsTest, AFileThatCannotBeWrittenIsNamed) {
  TurnsOptions options = Options("no/such/folder.jsonl");
  options.count = 1;
  const absl::Status status = WriteUserTurns(options);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "no/such/folder.jsonl")) << status;
}

}  // namespace
}  // namespace bastion::train
