#include "tools/bench/rejection_sampling.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_stages.h"
#include "tests/support/simulated_device.h"
#include "tests/tools/exactness/toy_target.h"

namespace bastion {
namespace {

using ::bastion::testing::DeviceCurve;
using ::bastion::testing::FakeDrafter;
using ::bastion::testing::FakeVerifier;
using ::bastion::testing::kToyTokens;
using ::bastion::testing::ToyDrafter;
using ::bastion::testing::ToyTarget;
using ::testing::HasSubstr;

// Expands every node by one position, from the last token alone.
class ToyNodeDrafter final : public Drafter {
 public:
  absl::StatusOr<DrafterInfo> Info() override {
    DrafterInfo info = {"toy-nodes", 1, kToyTokens, 512};
    info.wants_tokens = true;
    info.expands_nodes = true;
    return info;
  }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    DraftResult result;
    for (const Frontier& frontier : frontiers) {
      context_ += static_cast<Position>(frontier.new_tokens.size());
      if (frontier.committed == 0) context_ = 0;
      Draft& draft = result.drafts.emplace_back();
      for (const auto& path : frontier.paths) {
        draft.marginals.push_back(After(path.empty() ? frontier.root : path.back(), frontier));
      }
    }
    return result;
  }
  void Close(SequenceId) override { context_ = 0; }

  int most_candidates = kToyTokens;
  bool wrong_after_even = false;  // True: after an even token, predict what follows the next one.

 private:
  Marginals After(TokenId last, const Frontier& frontier) const {
    EXPECT_EQ(context_, frontier.committed) << "every committed token is sent once";
    const bool wrong = wrong_after_even && last % 2 == 0;
    const std::vector<float> logits = testing::ToyLogits(0, wrong ? last + 1 : last);
    double total = 0;
    for (const float logit : logits) total += std::exp(logit);
    std::vector<std::pair<float, TokenId>> ranked;
    ranked.reserve(kToyTokens);
    for (TokenId x = 0; x < kToyTokens; ++x) ranked.emplace_back(-logits[x], x);
    std::sort(ranked.begin(), ranked.end());
    Marginals marginals;
    marginals.positions = 1;
    marginals.candidates = std::min({frontier.candidates, kToyTokens, most_candidates});
    for (int rank = 0; rank < marginals.candidates; ++rank) {
      marginals.tokens.push_back(ranked[rank].second);
      marginals.log_probs.push_back(-ranked[rank].first - static_cast<float>(std::log(total)));
    }
    return marginals;
  }

  Position context_ = 0;
};

// All positions of a chain.
PositionSums Total(const ChainSums& sums) {
  PositionSums total;
  for (const PositionSums& position : sums.positions) {
    total.reached += position.reached;
    total.accepted += position.accepted;
    total.overlap += position.overlap;
    total.top += position.top;
  }
  return total;
}

class RejectionSamplingTest : public ::testing::Test {
 protected:
  RejectionSamplingTest() {
    for (TokenId i = 0; i < kToyTokens; ++i) {
      prompts_.push_back({std::to_string(i), {i, (i * 5 + 1) % kToyTokens, i}});
    }
    settings_.sampling.temperature = 1;
    settings_.max_new_tokens = 100;
  }

  [[nodiscard]] RejectionSetup SetupOf(Drafter& drafter) { return {{&target_, &drafter}, {}}; }
  absl::StatusOr<std::vector<ChainComparison>> Compare(Drafter& drafter,
                                                       std::vector<std::string> policies) {
    return CompareChains(
        SetupOf(drafter), prompts_, settings_, {std::move(policies)},
        [&](const std::string& policy) {
          return MakeLocalArm(policy, {&target_, &drafter}, DeviceCurve::Demo().Profile(), {});
        });
  }

  ToyTarget target_;
  ToyDrafter block_;
  ToyNodeDrafter nodes_;
  std::vector<BenchPrompt> prompts_;
  BenchSettings settings_;
};

TEST_F(RejectionSamplingTest, BothWaysAreTheSameAtTemperatureZero) {
  settings_.sampling.temperature = 0;
  nodes_.wrong_after_even = true;
  for (Drafter* drafter : {static_cast<Drafter*>(&block_), static_cast<Drafter*>(&nodes_)}) {
    const auto chains = Compare(*drafter, {"linear:1", "chain:3", "linear:4"});
    ASSERT_TRUE(chains.ok()) << chains.status();
    for (const ChainComparison& chain : *chains) {
      EXPECT_EQ(chain.sampled.cycles, chain.keyed.cycles) << chain.policy;
      EXPECT_EQ(chain.sampled.committed, chain.keyed.committed) << chain.policy;
      ASSERT_EQ(chain.keyed.positions.size(), static_cast<size_t>(chain.length)) << chain.policy;
      for (int i = 0; i < chain.length; ++i) {
        const PositionSums& sampled = chain.sampled.positions.at(i);
        const PositionSums& keyed = chain.keyed.positions[i];
        EXPECT_EQ(sampled.reached, keyed.reached) << chain.policy;
        EXPECT_EQ(sampled.accepted, keyed.accepted) << chain.policy;
        EXPECT_EQ(keyed.overlap, static_cast<double>(keyed.accepted)) << chain.policy;
      }
      EXPECT_GT(chain.keyed.positions[0].accepted, 0);
      if (drafter != &nodes_) continue;
      EXPECT_LT(chain.keyed.positions[0].accepted, chain.keyed.positions[0].reached);
    }
  }
  EXPECT_EQ(target_.live_sequences(), 0u);
}

TEST_F(RejectionSamplingTest, ProbabilitiesAreTheMeasuredAcceptance) {
  settings_.max_new_tokens = 480;
  settings_.sampling.temperature = 0.8F;
  for (Drafter* drafter : {static_cast<Drafter*>(&block_), static_cast<Drafter*>(&nodes_)}) {
    const auto chains = Compare(*drafter, {"linear:2"});
    ASSERT_TRUE(chains.ok()) << chains.status();
    const ChainSums &sampled = chains->at(0).sampled, &keyed = chains->at(0).keyed;
    EXPECT_GT(std::min(sampled.cycles, keyed.cycles), 2000);
    const PositionSums by_ratio = Total(sampled), by_key = Total(keyed);
    EXPECT_NEAR(by_ratio.overlap / static_cast<double>(by_ratio.accepted), 1, 0.02);
    EXPECT_NEAR(by_key.top / static_cast<double>(by_key.accepted), 1, 0.02);
    EXPECT_GT(by_key.overlap, 1.05 * by_key.top) << "the drafter is almost right";
    EXPECT_EQ(sampled.committed, sampled.cycles + by_ratio.accepted);
    EXPECT_EQ(keyed.committed, keyed.cycles + by_key.accepted);
  }
}

TEST_F(RejectionSamplingTest, TruncationAppliesToBothDistributions) {
  settings_.sampling.top_k = 1;
  const auto sampled = SampleChains(SetupOf(nodes_), prompts_, settings_, 3);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  for (const PositionSums& position : sampled->positions) {
    EXPECT_EQ(position.overlap, static_cast<double>(position.accepted)) << "p and q have one token";
    EXPECT_EQ(position.overlap, position.top);
  }
}

TEST_F(RejectionSamplingTest, TextsEndAtTheirLimitOrAtAStopToken) {
  RejectionSetup setup = SetupOf(nodes_);
  const auto whole = SampleChains(setup, prompts_, settings_, 4);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->committed, 100 * kToyTokens);
  setup.stop_tokens = {3, 5, 7};
  const auto stopped = SampleChains(setup, prompts_, settings_, 4);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_LT(stopped->committed, 50 * kToyTokens);
  EXPECT_EQ(target_.live_sequences(), 0u);
}

TEST_F(RejectionSamplingTest, TextsEndBeforeTheContextIsFull) {
  settings_.max_new_tokens = 10000;
  const auto sampled = SampleChains(SetupOf(nodes_), {prompts_[0]}, settings_, 4);
  ASSERT_TRUE(sampled.ok()) << sampled.status();
  EXPECT_GT(sampled->committed, 490);
  EXPECT_LT(sampled->committed, 512);
}

TEST_F(RejectionSamplingTest, ChainLengthsOfPolicies) {
  const DrafterInfo block = *block_.Info(), nodes = *nodes_.Info();
  EXPECT_EQ(*ChainLength("linear:6", nodes), 6);
  EXPECT_EQ(*ChainLength("chain:2+coupled", block), 2);
  EXPECT_EQ(*ChainLength("chain", block), 4) << "all positions";
  EXPECT_EQ(*ChainLength("chain+prior:table", nodes), 15) << "the rounds of a cycle";
  for (const char* policy :
       {"ar", "fixed:8", "linear", "linear:", "chain:0", "linear:x", "beam:1x4"}) {
    const absl::Status status = ChainLength(policy, nodes).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << policy;
    EXPECT_THAT(std::string(status.message()), HasSubstr(policy));
  }
}

TEST_F(RejectionSamplingTest, RefusesWhatWouldNotBeTheModelsDistributions) {
  nodes_.most_candidates = 3;
  const absl::Status few = SampleChains(SetupOf(nodes_), prompts_, settings_, 2).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(few));
  EXPECT_THAT(std::string(few.message()), HasSubstr("prompt 0: the drafter reported 3 candidates"));

  FakeVerifier target;
  FakeDrafter pairs(&target);
  pairs.scores_pairs = true;
  EXPECT_TRUE(absl::IsUnimplemented(
      SampleChains({{&target, &pairs}, {}}, prompts_, settings_, 2).status()));

  settings_.sampling.presence_penalty = 1;
  EXPECT_THAT(std::string(SampleChains(SetupOf(block_), prompts_, settings_, 2).status().message()),
              HasSubstr("penalties"));
}

TEST_F(RejectionSamplingTest, TheReportHasTheSumsOfEachPosition) {
  RejectionReport report = {"cpu", "target", "drafter", settings_, {{"linear:1", 1, {}, {}}}};
  report.chains[0].sampled.Add({{{true, 0.75, 0.5}}, {1, 2}});
  report.chains[0].sampled.Add({{{false, 0.5, 0.25}}, {1}});
  const nlohmann::json json = report.Json();
  EXPECT_EQ(json["settings"]["temperature"], 1);
  const nlohmann::json& sampled = json["chains"][0]["sampled"];
  EXPECT_EQ(sampled["cycles"], 2);
  EXPECT_EQ(sampled["committed"], 3);
  EXPECT_EQ(
      sampled["positions"],
      nlohmann::json::parse(R"([{"reached": 2, "accepted": 1, "overlap": 1.25, "top": 0.75}])"));
}

}  // namespace
}  // namespace bastion
