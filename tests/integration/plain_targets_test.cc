// Targets of every family without a drafter, as bastion-bench runs them: plain decoding, and drafts
// from the request's own tokens.
#include <gtest/gtest.h>

#include "orchestrator/profile/verify_profile.h"
#include "tests/support/golden_file.h"
#include "tools/bench/arm.h"
#include "tools/bench/load_plan.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

class PlainTargetsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string folder = testing::GoldenFolder(GetParam());
    LocalOptions options;
    options.target_folder = folder + "/target";
    options.device = {.threads = 2};
    options.memory.kv_tokens = 4096;
    auto stages = LocalStages::Create(options);
    ASSERT_TRUE(stages.ok()) << stages.status();
    stages_ = *std::move(stages);
    ProfileOptions quick;
    quick.time_limit = absl::ZeroDuration();
    quick.session = uint64_t{1} << 40;
    auto table = MeasureProfile(stages_->verifier(), Clock::Real(), quick);
    ASSERT_TRUE(table.ok()) << table.status();
    profile_ = *std::move(table);
    // A text that repeats itself, so that some of its continuations are accepted.
    const testing::GoldenFile golden(folder + "/golden.safetensors");
    BenchPrompt prompt = {"repeated", golden.Integers("tokens")};
    prompt.tokens.insert(prompt.tokens.end(), prompt.tokens.begin(), prompt.tokens.end());
    prompts_ = {prompt};
  }

  // What `policy` generates.
  PromptMeasurement Generate(const std::string& policy, float temperature) {
    BenchSettings settings;
    settings.sampling.temperature = temperature;
    settings.sampling.seed = 7;
    settings.max_new_tokens = 60;
    settings.ignore_eos = true;
    const auto plans = PlanLoads({.concurrency = {1}}, prompts_, settings);
    EXPECT_TRUE(plans.ok()) << plans.status();
    const ArmStages arm = {&stages_->verifier(), &stages_->drafter()};
    const auto made = MakeLocalArm(policy, arm, profile_, {});
    EXPECT_TRUE(made.ok()) << made.status();
    auto run = (*made)->Run((*plans)[0], settings);
    EXPECT_TRUE(run.ok()) << run.status();
    return run->requests.at(0);
  }

  std::unique_ptr<LocalStages> stages_;
  LatencyProfile profile_;
  std::vector<BenchPrompt> prompts_;
};

TEST_P(PlainTargetsTest, DraftsFromTheTextDoNotChangeIt) {
  for (const float temperature : {0.0f, 0.8f}) {
    const PromptMeasurement plain = Generate("ar", temperature);
    EXPECT_EQ(plain.output.size(), 60u);
    EXPECT_EQ(plain.cycles.size(), 60u);
    const PromptMeasurement drafted = Generate("ngram:2", temperature);
    EXPECT_EQ(drafted.output, plain.output) << "temperature " << temperature;
  }
}

TEST_P(PlainTargetsTest, PoliciesThatNeedADrafterDecodePlainly) {
  const PromptMeasurement plain = Generate("ar", 0), fixed = Generate("fixed:4", 0);
  EXPECT_EQ(fixed.output, plain.output);
  EXPECT_EQ(fixed.cycles.size(), plain.cycles.size());
  EXPECT_EQ(stages_->drafter().Info().status().code(), absl::StatusCode::kFailedPrecondition);
}

INSTANTIATE_TEST_SUITE_P(Families, PlainTargetsTest,
                         ::testing::Values("gqa2_untied_draft2", "llama_scaled_rope",
                                           "llama_default_rope", "neox_parallel", "neox_sequential",
                                           "moe_normalized", "moe_every_second_layer"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
