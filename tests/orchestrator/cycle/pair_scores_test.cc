// Decode cycles with drafters that send pair scores (marginals.h).
#include <algorithm>
#include <random>
#include <string>

#include "tests/orchestrator/cycle/decode_cycle_fixture.h"
#include "tests/orchestrator/cycle/simulation.h"

namespace bastion {
namespace {

using ::bastion::testing::DeviceCurve;
using ::bastion::testing::DrawnLoad;
using ::bastion::testing::FakeDrafter;
using ::bastion::testing::Ladder;
using ::bastion::testing::SimulatedDrafts;
using ::bastion::testing::SimulatedRun;
using ::bastion::testing::Simulation;
using ::bastion::testing::ToyText;

class PairScoresCycleTest : public DecodeCycleTest {
 protected:
  PairScoresCycleTest() {
    drafter_.scores_pairs = true;
    drafter_.percent_right = 30;
  }
};

TEST_F(PairScoresCycleTest, EveryPolicyGeneratesTheTextOfPlainDecoding) {
  uint64_t session = 1;
  for (const SamplingParams& sampling : {SamplingParams{}, SamplingParams{1.0f, 12}}) {
    for (const char* policy : {"chain", "beam:4x7", "fixed:16", "fixed:16+coupled", "bastion",
                               "eagle", "specblock", "dynatree", "adaptive", "default"}) {
      DecodeSequence sequence = Make(session++, policy, sampling);
      Run(sequence);
      EXPECT_EQ(sequence.output(), ToyText(kPrompt, sampling, kTokens)) << policy;
    }
  }
}

TEST_F(PairScoresCycleTest, TreesFollowTheScoresWhereTheMarginalsAreWrong) {
  uint64_t session = 1;
  for (const char* policy : {"chain", "fixed:16", "adaptive"}) {
    DecodeSequence paired = Make(session++, policy);
    Run(paired);
    drafter_.scores_pairs = false;
    DecodeSequence plain = Make(session++, policy);
    Run(plain);
    drafter_.scores_pairs = true;
    EXPECT_LT(paired.cycles().size() * 10, plain.cycles().size() * 8) << policy;
  }
}

TEST_F(PairScoresCycleTest, AChainChoosesFromTheCandidatesOfTheSelector) {
  DecodeSequence sequence = Make(1, "chain");
  Begin(sequence);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  // The first draft shows that the drafter scores pairs.
  EXPECT_EQ(drafter_.frontiers[0].candidates, 1);
  EXPECT_EQ(drafter_.frontiers[1].candidates, 16);
  EXPECT_EQ(sequence.cycles()[1].accepted, FakeDrafter::kPositions);
  EXPECT_EQ(sequence.cycles()[2].accepted, FakeDrafter::kPositions);
}

TEST_F(PairScoresCycleTest, ADrafterWithoutPairScoresIsAskedForNoMore) {
  drafter_.scores_pairs = false;
  DecodeSequence sequence = Make(1, "chain");
  Begin(sequence);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  EXPECT_EQ(drafter_.frontiers[1].candidates, 1);
  // Another drafter takes its place, and then the first one returns.
  drafter_.scores_pairs = true;
  ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  drafter_.scores_pairs = false;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(cycle_.Step({&sequence}).ok());
  EXPECT_EQ(drafter_.frontiers[3].candidates, 16);
  EXPECT_EQ(drafter_.frontiers[4].candidates, 1);
}

// Every request has pair scores of its own, which the target follows.
SimulatedDrafts TruePairs(int request) {
  SimulatedDrafts drafts = SimulatedDrafts::Calibrated(Ladder(8, 16, 0.5));
  std::mt19937 random(static_cast<uint32_t>(request));
  for (int pair = 0; pair < 8 * 16 * 16; ++pair) {
    drafts.pair_scores.push_back(std::normal_distribution<float>(0, 1.2f)(random));
  }
  return drafts;
}
SimulatedDrafts HiddenPairs(int request) {
  SimulatedDrafts drafts = TruePairs(request);
  drafts.states_pairs = false;
  return drafts;
}
SimulatedDrafts FalsePairs(int request) {
  SimulatedDrafts drafts = SimulatedDrafts::Calibrated(Ladder(8, 16, 0.5));
  drafts.pair_scores = TruePairs(request).pair_scores;
  drafts.follows_pairs = false;
  return drafts;
}

// With a prior that knows nothing, so that drafts are scored with learned weights.
class LearningLoad final : public DrawnLoad {
 public:
  using DrawnLoad::DrawnLoad;
  [[nodiscard]] PriorInputs prior() const override { return {.vocabulary = 100'000}; }
};

SimulatedRun RunOf(const std::string& policy, const DrawnLoad::DraftsOf& drafts) {
  LearningLoad load(drafts);
  return Simulation(DeviceCurve::Gpu(), 2, policy, &load).Run(1500);
}

TEST(PairScoresSimulationTest, TruePairScoresAreAccepted) {
  for (const char* policy : {"chain:4", "fixed:16", "adaptive", "default"}) {
    const SimulatedRun paired = RunOf(policy, TruePairs), plain = RunOf(policy, HiddenPairs);
    EXPECT_GT(paired.pace(), 1.1 * plain.pace()) << policy;
  }
}

TEST(PairScoresSimulationTest, LearnedWeightsIgnoreNoise) {
  const auto none = [](int request) {
    SimulatedDrafts drafts = FalsePairs(request);
    drafts.pair_scores.clear();
    return drafts;
  };
  const double best = RunOf("fixed:16", none).pace();
  EXPECT_LT(RunOf("fixed:16", FalsePairs).pace(), 0.95 * best);
  EXPECT_GT(RunOf("fixed:16+prior:table", FalsePairs).pace(), 0.98 * best);
}

}  // namespace
}  // namespace bastion
