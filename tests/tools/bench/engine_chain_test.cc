// Real engines: p and q come from the right prefixes. At temperature 0, rejection sampling accepts
// what equals the target's choice, so it must commit exactly what the keyed walk commits.
#include "tools/bench/engine_chain.h"

#include "gtest/gtest.h"
#include "tests/support/simulated_device.h"
#include "tools/bench/rejection_sampling.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

class EngineChainTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string pair = std::string(BASTION_SOURCE_DIR) + "/deploy/" + GetParam();
    LocalOptions options;
    options.target_folder = pair + "/target";
    options.drafter_folder = pair + "/drafter";
    options.formats.weights = "fp32";
    options.device.threads = 2;
    options.memory.max_sequences = 3;
    options.memory.kv_tokens = 1024;
    auto stages = LocalStages::Create(options);
    ASSERT_TRUE(stages.ok()) << stages.status();
    stages_ = *std::move(stages);
    settings_.max_new_tokens = 24;
  }

  std::unique_ptr<LocalStages> stages_;
  const std::vector<BenchPrompt> prompts_ = {{"one", {17}}, {"few", {40, 300, 7, 95, 1200, 33}}};
  BenchSettings settings_;
};

TEST_P(EngineChainTest, GreedyChainsCommitWhatTheVerifierAccepts) {
  const ChainStages stages = {&stages_->verifier(), &stages_->drafter()};
  const auto chains =
      CompareChains({stages, {}}, prompts_, settings_, {{"linear:2", "linear:5"}},
                    [&](const std::string& policy) {
                      return MakeLocalArm(policy, {stages.verifier, stages.drafter},
                                          testing::DeviceCurve::Demo().Profile(), {});
                    });
  ASSERT_TRUE(chains.ok()) << chains.status();
  for (const ChainComparison& chain : *chains) {
    EXPECT_EQ(chain.sampled.cycles, chain.keyed.cycles) << chain.policy;
    EXPECT_EQ(chain.sampled.committed, chain.keyed.committed) << chain.policy;
    for (int i = 0; i < chain.length; ++i) {
      const PositionSums& sampled = chain.sampled.positions.at(i);
      const PositionSums& keyed = chain.keyed.positions.at(i);
      EXPECT_EQ(sampled.accepted, keyed.accepted) << chain.policy << ", position " << i;
      EXPECT_EQ(keyed.top, static_cast<double>(keyed.accepted)) << "the arm drafts the same tokens";
    }
    EXPECT_GT(chain.keyed.positions[0].accepted, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(DemoPairs, EngineChainTest,
                         ::testing::Values("demo_model", "demo_model_neox"));

}  // namespace
}  // namespace bastion
