// Prompts with a common beginning on the demo pair, in process: a second request computes only the
// rest, and its drafts are as good as those of a cold run.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/linear_costs.h"
#include "tools/bench/prompts.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

const std::string kModels = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model";
constexpr size_t kShared = 1000, kRest = 20;
constexpr int kTokens = 48;

struct Answer {
  int reused = 0;     // Prompt tokens.
  int prefilled = 0;  // Rows of the prefill.
  std::vector<TokenId> output;
  std::vector<int> committed_lengths;
};

class PrefixReuseTest : public ::testing::Test {
 protected:
  void SetUp() override {
    LocalOptions options;
    options.target_folder = kModels + "/target";
    options.drafter_folder = kModels + "/drafter";
    options.formats.weights = "fp32";
    options.device.threads = 2;
    options.memory.reuse_prefixes = true;
    auto stages = LocalStages::Create(options);
    ASSERT_TRUE(stages.ok()) << stages.status();
    stages_ = *std::move(stages);
    target_ = stages_->verifier_engine().info();
    const auto prompts = LoadPrompts(kModels + "/prompts.jsonl", options.target_folder);
    ASSERT_TRUE(prompts.ok()) << prompts.status();
    for (const BenchPrompt& prompt : *prompts) {
      text_.insert(text_.end(), prompt.tokens.begin(), prompt.tokens.end());
    }
    ASSERT_GE(text_.size(), kShared + 3 * kRest);
  }

  // The shared beginning and the `number`th continuation.
  std::vector<TokenId> Prompt(size_t number) const {
    std::vector<TokenId> prompt(text_.begin(), text_.begin() + kShared);
    const auto rest = text_.begin() + kShared + number * kRest;
    prompt.insert(prompt.end(), rest, rest + kRest);
    return prompt;
  }

  Answer Decode(const std::vector<TokenId>& prompt, const std::string& salt) {
    return Decode(prompt, salt, stages_->drafter());
  }
  Answer Decode(const std::vector<TokenId>& prompt, const std::string& salt, Drafter& drafter) {
    CostModel costs = testing::LinearCosts();
    SharedLearning memory;
    DecodeCycle cycle(target_, &drafter, &stages_->verifier(), &costs);
    DecodeRequest request;
    request.id = {++sessions_, 0};
    request.prompt = prompt;
    request.max_tokens = kTokens;
    request.cache_salt = salt;
    DecodeSequence sequence(request, Policy::Parse("fixed:16")->NewRequest(true, &costs, &memory));
    cycle.Open(sequence);
    Answer run;
    run.reused = sequence.reused_prompt_tokens();
    run.prefilled = sequence.prompt_left();
    while (cycle.Prefill(sequence, 256)) {
    }
    while (!sequence.done()) EXPECT_TRUE(cycle.Step({&sequence}).ok());
    EXPECT_TRUE(sequence.status().ok()) << sequence.status();
    cycle.Close(sequence, drafter);
    run.output = sequence.output();
    for (const CycleRecord& record : sequence.cycles()) {
      run.committed_lengths.push_back(record.committed_length);
    }
    return run;
  }

  std::unique_ptr<LocalStages> stages_;
  TargetInfo target_;
  std::vector<TokenId> text_;
  uint64_t sessions_ = 0;
};

TEST_F(PrefixReuseTest, OnlyTheRestIsPrefilledAndTheCommittedLengthsAreThoseOfAColdRun) {
  const Answer cold = Decode(Prompt(1), "cold");
  ASSERT_EQ(cold.reused, 0);
  EXPECT_LT(cold.committed_lengths.size(), kTokens * 3 / 4) << "no drafts were accepted";
  ASSERT_EQ(Decode(Prompt(0), "").reused, 0);
  const Answer warm = Decode(Prompt(1), "");
  EXPECT_EQ(warm.reused, kShared / target_.page_tokens * target_.page_tokens);
  EXPECT_EQ(warm.prefilled, static_cast<int>(kShared + kRest) - 1 - warm.reused);
  EXPECT_EQ(warm.output, cold.output);
  EXPECT_EQ(warm.committed_lengths, cold.committed_lengths);
}

TEST_F(PrefixReuseTest, AnotherSaltSharesNothing) {
  EXPECT_EQ(Decode(Prompt(0), "alice").reused, 0);
  EXPECT_EQ(Decode(Prompt(0), "bob").reused, 0);
  EXPECT_EQ(Decode(Prompt(0), "").reused, 0);
  EXPECT_GT(Decode(Prompt(0), "alice").reused, 0);
}

// A drafter that has started since then has no context of its own for the prefix.
TEST_F(PrefixReuseTest, ANewDrafterReadsTheStoredFeaturesOfTheReusedPrefix) {
  const Answer cold = Decode(Prompt(1), "cold");
  ASSERT_EQ(Decode(Prompt(0), "").reused, 0);
  drafter::DrafterOptions options;
  options.drafter_folder = kModels + "/drafter";
  options.target_folder = kModels + "/target";
  options.engine = {nn::FormatsFor(WeightFormat::kF32), stages_->device()};
  auto engine = drafter::DrafterEngine::Create(options, &stages_->verifier_engine().features());
  ASSERT_TRUE(engine.ok()) << engine.status();
  LocalDrafter drafter(engine->get());
  const Answer warm = Decode(Prompt(1), "", drafter);
  EXPECT_GT(warm.reused, 0);
  EXPECT_EQ(warm.output, cold.output);
  EXPECT_EQ(warm.committed_lengths, cold.committed_lengths);
}

}  // namespace
}  // namespace bastion
