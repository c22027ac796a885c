// The target writes teacher text with the serving engine.
#include "tools/train/teach/teach.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/hub/model_config.h"
#include "orchestrator/profile/verify_profile.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/arm.h"
#include "tools/bench/prompts.h"
#include "tools/inprocess/local_stages.h"
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
  EXPECT_TRUE(absl::StrContains(status.message(), "(teacher.json): --seed;")) << status;
}

TEST_F(TeachTest, OtherPromptsInAFileOfTheSameNameDoNotMixIntoAFolder) {
  const TeachOptions options = Options("renamed");
  ASSERT_TRUE(Teach(options).ok());
  const std::string texts = Texts(options);
  std::ofstream(options.prompts) << R"({"id": "p0", "token_ids": [3, 5, 9]})"
                                 << "\n";
  const absl::Status status = Teach(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "line 1 of texts.jsonl")) << status;
  EXPECT_EQ(Texts(options), texts);
}

TEST_F(TeachTest, PromptsThatWereAddedAtTheEndAreContinued) {
  const TeachOptions options = Options("longer");
  ASSERT_TRUE(Teach(options).ok());
  const std::string texts = Texts(options);
  std::ofstream(options.prompts, std::ios::app) << R"({"id": "more", "token_ids": [7, 5, 9]})"
                                                << "\n";
  ASSERT_TRUE(Teach(options).ok());
  EXPECT_TRUE(absl::StartsWith(Texts(options), texts));
  EXPECT_TRUE(absl::StrContains(Texts(options), "\"more\""));
}

TEST_F(TeachTest, TextThatDoesNotSayHowItWasMadeIsNotContinued) {
  const TeachOptions options = Options("orphan");
  ASSERT_TRUE(Teach(options).ok());
  std::filesystem::remove(options.out + "/teacher.json");
  const absl::Status status = Teach(options);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "no teacher.json")) << status;
}

// Some answers end early. They must keep the stop token, which drafters learn to predict.
TEST_F(TeachTest, TheTextIsThatOfPlainDecodingWithItsStopToken) {
  TeachOptions options = Options("plain");
  const std::filesystem::path golden = options.target;
  options.target = folder_.path() + "/target";
  std::filesystem::create_directory(options.target);
  for (const char* file : {"model.safetensors", "config.json"}) {
    std::filesystem::create_symlink(golden / file, options.target + "/" + file);
  }
  std::ofstream(options.target + "/generation_config.json")
      << R"({"eos_token_id": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]})";
  options.max_new_tokens = 16;  // A loop has at least 32 tokens.
  ASSERT_TRUE(Teach(options).ok());
  const auto texts = ReadTeacherTexts(options.out, kVocabulary);
  ASSERT_TRUE(texts.ok()) << texts.status();
  LocalOptions models;
  models.target_folder = options.target;
  models.formats = options.formats;
  models.device = options.device;
  const auto stages = LocalStages::Create(models);
  ASSERT_TRUE(stages.ok()) << stages.status();
  Verifier& verifier = (*stages)->verifier();
  ProfileOptions quick;
  quick.row_counts = {1, 8};
  quick.further_row_counts.clear();
  quick.contexts = {16};
  quick.repetitions = 1;
  const auto profile = MeasureProfile(verifier, Clock::Real(), quick);
  ASSERT_TRUE(profile.ok()) << profile.status();
  const auto config = hub::ReadTargetConfig(options.target);
  const auto arm =
      MakeLocalArm("ar", {&verifier, &(*stages)->drafter()}, *profile, config->special.eos);
  ASSERT_TRUE(arm.ok()) << arm.status();
  const auto prompts = LoadPrompts(options.prompts, options.target);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  int stopped = 0;
  for (int i = 0; i < kPrompts; ++i) {
    BenchSettings settings;
    settings.sampling.temperature = options.temperatures[i % 2];
    settings.sampling.seed = options.seed + i;
    LoadPlan plan;
    plan.level.concurrency = 1;
    plan.requests.push_back({&(*prompts)[i], options.max_new_tokens, absl::ZeroDuration()});
    const auto run = (*arm)->Run(plan, settings);
    ASSERT_TRUE(run.ok()) << run.status();
    std::vector<TokenId> expected = (*prompts)[i].tokens;
    const std::vector<TokenId>& output = run->requests[0].output;
    expected.insert(expected.end(), output.begin(), output.end());
    EXPECT_EQ((*texts)[i].tokens, expected) << (*texts)[i].id;
    if ((*texts)[i].written() == options.max_new_tokens) continue;
    ++stopped;
    EXPECT_LT((*texts)[i].tokens.back(), 10) << (*texts)[i].id;
  }
  EXPECT_GT(stopped, 0);
  EXPECT_LT(stopped, kPrompts);
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
