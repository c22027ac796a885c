// Drafters that read features and keep states or none: DFlash 2, EAGLE-3, SpecBlock, P-EAGLE and
// Medusa, on tiny random pairs. Every policy must give the text of plain decoding, at any
// temperature and in any batch, also if sequences share prefixes and if the drafter forgets a
// sequence.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/shared_learning.h"
#include "orchestrator/profile/verify_profile.h"
#include "tests/support/golden_file.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

constexpr int kTokens = 24;

class StatefulDraftersTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    LocalOptions options;
    options.target_folder = testing::GoldenFolder(GetParam()) + "/target";
    options.drafter_folder = testing::GoldenFolder(GetParam()) + "/drafter";
    options.formats.weights = "fp32";
    options.device.threads = 2;
    auto stages = LocalStages::Create(options);
    ASSERT_TRUE(stages.ok()) << stages.status();
    stages_ = *std::move(stages);
    ProfileOptions quick;
    quick.time_limit = absl::ZeroDuration();
    quick.session = uint64_t{1} << 40;
    auto table = MeasureProfile(stages_->verifier(), Clock::Real(), quick);
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = *std::move(table);
  }

  struct Load {
    int batch = 1;
    float temperature = 0;
    int forget_at = -1;  // The cycle before which the drafter forgets all sequences.
  };
  struct Result {
    std::vector<std::vector<TokenId>> outputs;
    int drafted = 0;   // Nodes.
    int accepted = 0;  // Nodes.
  };

  std::vector<std::unique_ptr<DecodeSequence>> Open(const std::string& policy, const Load& load,
                                                    DecodeCycle& cycle, CostModel& costs,
                                                    SharedLearning& memory) {
    std::vector<std::unique_ptr<DecodeSequence>> sequences;
    for (int i = 0; i < load.batch; ++i) {
      DecodeRequest request;
      request.id = {session_++, 0};
      // Prompts share their first 40 tokens with half of the others.
      std::vector<TokenId> prompt;
      for (int at = 0; at < 50 + i; ++at) {
        prompt.push_back(8 + (at < 40 ? at * (3 + i % 2) : at * 7 + i) % 150);
      }
      request.prompt = std::move(prompt);
      request.sampling = {{.temperature = load.temperature, .seed = 3}};
      request.max_tokens = kTokens;
      sequences.push_back(std::make_unique<DecodeSequence>(
          request, Policy::Parse(policy)->NewRequest(load.temperature == 0, &costs, &memory)));
      cycle.Open(*sequences.back());
      while (cycle.Prefill(*sequences.back(), 4096)) {
      }
    }
    return sequences;
  }

  Result Decode(const std::string& policy, const Load& load) {
    const TargetInfo target = *stages_->verifier().Info();
    CostModel costs = *CostModel::Fit(target, table_);
    SharedLearning memory({.vocabulary = target.dims.vocabulary});
    DecodeCycle cycle(target, &stages_->drafter(), &stages_->verifier(), &costs, &Clock::Real());
    const auto sequences = Open(policy, load, cycle, costs, memory);
    for (int step = 0;; ++step) {
      Batch batch;
      for (const auto& sequence : sequences) {
        if (!sequence->done()) batch.push_back(sequence.get());
        if (step == load.forget_at) stages_->drafter().Close(sequence->id());
      }
      if (batch.empty()) break;
      EXPECT_TRUE(cycle.Step(batch).ok());
    }
    Result result;
    for (const auto& sequence : sequences) {
      EXPECT_TRUE(sequence->status().ok()) << sequence->status();
      result.outputs.push_back(sequence->output());
      for (const CycleRecord& record : sequence->cycles()) {
        result.drafted += record.nodes;
        result.accepted += record.accepted;
      }
      cycle.Close(*sequence, stages_->drafter());
    }
    return result;
  }

  std::unique_ptr<LocalStages> stages_;
  LatencyProfile table_;
  uint64_t session_ = 1;
};

TEST_P(StatefulDraftersTest, EveryPolicyGivesTheTextOfPlainDecoding) {
  for (const float temperature : {0.0f, 1.0f}) {
    for (const int batch : BASTION_SANITIZED ? std::vector<int>{2} : std::vector<int>{1, 8}) {
      const Result plain = Decode("ar", {batch, temperature});
      for (const char* policy : {"chain:6", "fixed:16", "beam:2x4", "eagle:4,3,16", "eagle",
                                 "specblock", "specblock:literal,m=3,n=24", "dynatree", "bastion",
                                 "adaptive", "default", "fixed:16+coupled"}) {
        EXPECT_EQ(Decode(policy, {batch, temperature}).outputs, plain.outputs)
            << policy << ", " << batch << " at temperature " << temperature;
      }
    }
  }
}

TEST_P(StatefulDraftersTest, TheSecondRunReusesPrefixesAndDraftsTheSameTrees) {
  const Result first = Decode("fixed:16", {4, 0});
  const Result second = Decode("fixed:16", {4, 0});
  EXPECT_GT(first.drafted, 0);
  EXPECT_EQ(second.outputs, first.outputs);
  EXPECT_EQ(second.drafted, first.drafted);
  EXPECT_EQ(second.accepted, first.accepted);
}

TEST_P(StatefulDraftersTest, ADrafterThatForgetsSequencesChangesNoText) {
  const Result plain = Decode("ar", {2, 0});
  EXPECT_EQ(Decode("fixed:16", {2, 0, /*forget_at=*/3}).outputs, plain.outputs);
}

INSTANTIATE_TEST_SUITE_P(Goldens, StatefulDraftersTest,
                         ::testing::Values("eagle3_specforge", "specblock_shift",
                                           "peagle_speculators", "medusa_shared_blocks",
                                           "dflash2_window"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
