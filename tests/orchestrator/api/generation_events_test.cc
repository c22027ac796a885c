#include "orchestrator/api/generation_events.h"

#include <cmath>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const hub::Tokenizer& Tokens() {
  static const auto* const tokenizer =
      new hub::Tokenizer(testing::LoadTokenizer(testing::ByteLevelTokenizerJson()));
  return *tokenizer;
}

// A cycle whose tree has 'b' and 'c' below 'a', and 'd' below 'b'. The target chooses 'b',
// then 'x'.
CycleRecord CycleWithTree() {
  DraftTree tree('a');
  const NodeIndex b = tree.Add(0, 'b', std::log(0.5f));
  tree.Add(0, 'c', std::log(0.25f));
  tree.Add(b, 'd', std::log(0.125f));
  CycleRecord cycle;
  cycle.reason = BudgetReason::kCost;
  cycle.predicted_verify = absl::Milliseconds(2);
  cycle.stages.verify = absl::Milliseconds(3);
  cycle.tree = std::make_shared<VerifiedTree>(
      VerifiedTree{tree, {NodeSource::kDraft, NodeSource::kRequest, NodeSource::kDraft}, {b}, 'x'});
  cycle.totals = TotalsOf(*cycle.tree);
  return cycle;
}

CycleRecord Cycle(int nodes, int accepted, double predicted_ms, double measured_ms) {
  CycleRecord cycle;
  cycle.nodes = nodes;
  cycle.drafted = nodes > 0;
  cycle.accepted = accepted;
  cycle.committed_length = accepted + 1;
  cycle.rows = nodes + 1;
  cycle.share = 0.5;
  cycle.context = 100;
  cycle.expected_length = 1 + 0.5 * nodes;
  cycle.predicted_verify = absl::Milliseconds(predicted_ms);
  cycle.stages.draft = absl::Microseconds(nodes > 0 ? 1500000 : 0);
  cycle.stages.verify = absl::Milliseconds(measured_ms);
  return cycle;
}

TEST(GenerationEventsTest, ADeltaContainsTheRequestedFields) {
  OutputDelta delta;
  delta.answer = 3;
  delta.text = "def ";
  delta.tokens = {7, 9};
  delta.logprobs = {{-0.5f, {{7, -0.5f}, {8, -1.5f}}}, {-3.0f, {}}};
  delta.cycles = {Cycle(4, 1, 2, 2.5), Cycle(0, 0, 1, 1.5)};
  const auto bare = DeltaEvent(delta, {}, Tokens());
  EXPECT_EQ(bare.delta().answer(), 3u);
  EXPECT_EQ(bare.delta().text(), "def ");
  EXPECT_THAT(bare.delta().token_ids(), IsEmpty());
  EXPECT_THAT(bare.delta().cycles(), IsEmpty());
  EXPECT_THAT(bare.delta().logprobs(), IsEmpty());

  v1::OutputOptions all;
  all.set_token_ids(true);
  all.set_cycles(true);
  all.set_logprobs(2);
  const auto full = DeltaEvent(delta, all, Tokens());
  EXPECT_THAT(full.delta().token_ids(), ElementsAre(7, 9));
  ASSERT_EQ(full.delta().logprobs_size(), 2);
  EXPECT_EQ(full.delta().logprobs(0).token_id(), 7);
  EXPECT_EQ(full.delta().logprobs(0).logprob(), -0.5f);
  ASSERT_EQ(full.delta().logprobs(0).top_size(), 2);
  EXPECT_EQ(full.delta().logprobs(0).top(1).token_id(), 8);
  EXPECT_EQ(full.delta().logprobs(0).top(1).logprob(), -1.5f);
  EXPECT_EQ(full.delta().logprobs(1).token_id(), 9);
  EXPECT_EQ(full.delta().logprobs(0).bytes(), Tokens().TokenBytes(7));
  EXPECT_EQ(full.delta().logprobs(0).top(1).bytes(), Tokens().TokenBytes(8));
  ASSERT_EQ(full.delta().cycles_size(), 2);
  const v1::CycleReport& cycle = full.delta().cycles(0);
  EXPECT_EQ(cycle.nodes(), 4u);
  EXPECT_EQ(cycle.rows(), 5u);
  EXPECT_EQ(cycle.committed_length(), 2u);
  EXPECT_EQ(cycle.measured_verify().nanos(), 2500000);
  EXPECT_EQ(cycle.draft().seconds(), 1);
  EXPECT_EQ(cycle.draft().nanos(), 500000000);
  EXPECT_EQ(cycle.share(), 0.5);
  EXPECT_EQ(cycle.accepted_nodes(), 1u);
  EXPECT_EQ(cycle.context(), 100u);
  EXPECT_EQ(cycle.expected_length(), 3);
  EXPECT_EQ(full.delta().cycles(1).committed_length(), 1u);
}

TEST(GenerationEventsTest, FinishedSumsUpTheCycles) {
  OutputEnd end;
  end.reason = FinishReason::kLength;
  end.prompt_tokens = 11;
  end.completion_tokens = 7;
  end.cached_prompt_tokens = 5;
  end.seed = 42;
  end.policy = "adaptive";
  end.times.total = absl::Milliseconds(1250);
  end.cycles = {Cycle(4, 3, 2.0, 2.0), Cycle(0, 0, 1.5, 1.0), Cycle(3, 1, 1.8, 2.0)};
  const v1::Finished finished = FinishedEvent(2, end, {}).finished();
  EXPECT_EQ(finished.answer(), 2u);
  EXPECT_EQ(finished.reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_FALSE(finished.has_stop_token_id());
  EXPECT_EQ(finished.usage().prompt_tokens(), 11u);
  EXPECT_EQ(finished.usage().completion_tokens(), 7u);
  EXPECT_EQ(finished.usage().cached_prompt_tokens(), 5u);
  EXPECT_EQ(finished.seed(), 42u);
  EXPECT_EQ(finished.timings().total().seconds(), 1);
  EXPECT_EQ(finished.timings().total().nanos(), 250000000);
  EXPECT_EQ(finished.timings().draft().seconds(), 3) << "the sum of two cycles with a draft";
  EXPECT_EQ(finished.timings().verify().nanos(), 5000000);
  const v1::SpeculationStats& stats = finished.speculation();
  EXPECT_EQ(stats.policy(), "adaptive");
  EXPECT_EQ(stats.cycles(), 3u);
  EXPECT_EQ(stats.drafted_cycles(), 2u);
  EXPECT_EQ(stats.draft_tokens(), 7u);
  EXPECT_EQ(stats.accepted_tokens(), 4u);
  EXPECT_DOUBLE_EQ(stats.mean_committed_length(), 7.0 / 3);
  EXPECT_THAT(stats.accepted_per_depth(), ElementsAre(2, 1, 1));
  EXPECT_NEAR(stats.verify_prediction_error_median(), 0.1, 1e-9);
}

TEST(GenerationEventsTest, FinishedReportsTheStopCondition) {
  OutputEnd end;
  end.reason = FinishReason::kStopToken;
  end.stop_token = 3;
  EXPECT_EQ(FinishedEvent(2, end, {}).finished().reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(FinishedEvent(2, end, {}).finished().stop_token_id(), 3);
  end.stop_string = "<|im_end|>";  // A stop string that is the token.
  EXPECT_EQ(FinishedEvent(2, end, {}).finished().stop_string(), "<|im_end|>");
  end.reason = FinishReason::kStopString;
  end.stop_token.reset();
  end.stop_string = "\n\n";
  EXPECT_EQ(FinishedEvent(2, end, {}).finished().reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(FinishedEvent(2, end, {}).finished().stop_string(), "\n\n");
  EXPECT_FALSE(FinishedEvent(2, end, {}).finished().has_stop_token_id());
}

TEST(GenerationEventsTest, ADeltaHasTheTreesOfItsCyclesOnRequest) {
  OutputDelta delta;
  delta.cycles = {CycleWithTree()};
  v1::OutputOptions wanted;
  wanted.set_cycles(true);
  EXPECT_FALSE(DeltaEvent(delta, wanted, Tokens()).delta().cycles(0).has_verified_tree());
  wanted.set_cycles(false);
  wanted.set_trees(true);
  const auto event = DeltaEvent(delta, wanted, Tokens());
  ASSERT_EQ(event.delta().cycles_size(), 1);
  const v1::VerifiedTree& tree = event.delta().cycles(0).verified_tree();
  EXPECT_EQ(tree.root_token_id(), 'a');
  EXPECT_EQ(tree.root_text(), "a");
  EXPECT_EQ(tree.next_token_id(), 'x');
  EXPECT_EQ(tree.next_text(), "x");
  ASSERT_EQ(tree.nodes_size(), 3);
  EXPECT_EQ(tree.nodes(0).text(), "b");
  EXPECT_EQ(tree.nodes(0).parent(), 0u);
  EXPECT_FLOAT_EQ(tree.nodes(0).path_probability(), 0.5);
  EXPECT_EQ(tree.nodes(0).source(), v1::NODE_SOURCE_DRAFT);
  EXPECT_TRUE(tree.nodes(0).accepted());
  EXPECT_EQ(tree.nodes(1).source(), v1::NODE_SOURCE_REQUEST);
  EXPECT_FALSE(tree.nodes(1).accepted());
  EXPECT_EQ(tree.nodes(2).parent(), 1u);
}

TEST(GenerationEventsTest, FinishedHasTheTotalsBySourceOnRequest) {
  OutputEnd end;
  end.cycles = {CycleWithTree(), CycleWithTree()};
  EXPECT_FALSE(FinishedEvent(2, end, {}).finished().has_totals());
  v1::OutputOptions wanted;
  wanted.set_totals(true);
  const auto event = FinishedEvent(2, end, wanted);
  const v1::DraftTotals& totals = event.finished().totals();
  ASSERT_EQ(totals.sources_size(), 2);
  EXPECT_EQ(totals.sources(0).source(), v1::NODE_SOURCE_DRAFT);
  EXPECT_EQ(totals.sources(0).nodes(), 4u);
  EXPECT_EQ(totals.sources(0).accepted(), 2u);
  EXPECT_FLOAT_EQ(totals.sources(0).expected(), 2 * 0.625);
  EXPECT_EQ(totals.sources(1).source(), v1::NODE_SOURCE_REQUEST);
  EXPECT_EQ(totals.sources(1).nodes(), 2u);
  EXPECT_EQ(totals.sources(1).accepted(), 0u);
  EXPECT_EQ(totals.budget_reasons().at("cost"), 2u);
  EXPECT_EQ(totals.predicted_verify().nanos(), 4000000);
  EXPECT_EQ(totals.measured_verify().nanos(), 6000000);
}

TEST(GenerationEventsTest, AnAnswerWithoutCyclesHasZeroMeans) {
  const v1::SpeculationStats stats = FinishedEvent(0, {}, {}).finished().speculation();
  EXPECT_EQ(stats.cycles(), 0u);
  EXPECT_EQ(stats.mean_committed_length(), 0);
  EXPECT_EQ(stats.verify_prediction_error_median(), 0);
}

}  // namespace
}  // namespace bastion
