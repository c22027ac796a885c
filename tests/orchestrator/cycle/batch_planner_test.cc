#include "orchestrator/cycle/batch_planner.h"

#include <algorithm>
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/simulated_device.h"

namespace bastion {
namespace {

using ::bastion::testing::DeviceCurve;
using ::bastion::testing::DrawnTexts;
using ::bastion::testing::SimulatedDevice;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A forward takes 10 ms, and 1 ms per row.
DeviceCurve Linear() {
  return {[](double rows) { return 10 + rows; }, [](double) { return 1.0; }, /*overhead=*/0};
}

class BatchPlannerTest : public ::testing::Test {
 protected:
  struct Entry {
    std::unique_ptr<DecodeSequence> sequence;
    BatchHistory history;
  };

  // Adds a sequence that decodes. `target_ms` is its latency target; 0: none.
  void AddDecoder(double target_ms = 0, double weight = 1, const std::string& policy = "ar") {
    DecodeRequest request;
    request.id = {next_session_++, 0};
    request.prompt = {1};
    request.max_tokens = 100'000;
    request.weight = weight;
    if (target_ms > 0) request.latency_target = absl::Milliseconds(target_ms);
    Add(std::move(request), policy, decoders_);
  }
  void AddPrompt(int rows) {
    DecodeRequest request;
    request.id = {next_session_++, 0};
    request.prompt = std::vector<TokenId>(rows + 1, 1);
    request.max_tokens = 1;
    Add(std::move(request), "ar", prompts_);
  }
  BatchPlan Plan() {
    std::vector<BatchCandidate> decoding, prompts;
    for (Entry& entry : decoders_) decoding.push_back({entry.sequence.get(), &entry.history});
    for (Entry& entry : prompts_) prompts.push_back({entry.sequence.get(), &entry.history});
    return PlanBatch(decoding, prompts, {.max_rows = 512, .prompt_rows = 256}, costs_);
  }
  static int RowsOf(const BatchPlan& plan) {
    int rows = 0;
    for (const BatchPlan::PromptRows& prompt : plan.prompts) rows += prompt.rows;
    return rows;
  }
  // The number of turns of every decoder in `forwards` forwards.
  std::vector<int> CountTurns(int forwards) {
    std::vector<int> turns(decoders_.size(), 0);
    for (int i = 0; i < forwards; ++i) {
      for (const size_t decoder : Plan().decoding) ++turns[decoder];
    }
    return turns;
  }

  std::vector<Entry> decoders_, prompts_;

 private:
  void Add(DecodeRequest request, const std::string& policy, std::vector<Entry>& entries) {
    entries.push_back({std::make_unique<DecodeSequence>(std::move(request),
                                                        Policy::Parse(policy)->NewRequest(
                                                            /*greedy=*/true, &costs_, &memory_)),
                       {}});
  }

  DrawnTexts texts_;
  SimulatedDevice device_{Linear(), &texts_};
  CostModel costs_ = *CostModel::Fit(device_.Target(), device_.curve.Profile());
  SharedLearning memory_;
  uint64_t next_session_ = 0;
};

TEST_F(BatchPlannerTest, WithoutTargetsAllDecodeAndPromptsGetTheWholeBudget) {
  for (int i = 0; i < 20; ++i) AddDecoder();
  AddPrompt(1000);
  AddPrompt(100);
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.decoding.size(), 20u);
  ASSERT_EQ(plan.prompts.size(), 2u);
  EXPECT_EQ(plan.prompts[0].rows, 156);
  EXPECT_EQ(plan.prompts[1].rows, 100);
  EXPECT_EQ(plan.waiting, 0);
}

TEST_F(BatchPlannerTest, PromptsWithoutRowsWait) {
  for (int i = 0; i < 5; ++i) AddPrompt(100);
  const BatchPlan plan = Plan();
  EXPECT_EQ(RowsOf(plan), 256);
  EXPECT_EQ(plan.prompts.size(), 3u);
  EXPECT_EQ(plan.waiting, 2);
}

TEST_F(BatchPlannerTest, WithoutRequestsThePlanIsEmpty) {
  EXPECT_THAT(Plan().decoding, IsEmpty());
  EXPECT_THAT(Plan().prompts, IsEmpty());
}

TEST_F(BatchPlannerTest, ATargetLimitsThePromptRows) {
  AddDecoder(/*target_ms=*/50);  // A forward may take 40 ms, so it may have 30 rows.
  AddPrompt(1000);
  EXPECT_EQ(RowsOf(Plan()), 29);
}

TEST_F(BatchPlannerTest, TheSmallestTargetCounts) {
  AddDecoder(/*target_ms=*/500);
  AddDecoder(/*target_ms=*/50);
  AddPrompt(1000);
  EXPECT_EQ(RowsOf(Plan()), 28);
}

TEST_F(BatchPlannerTest, ATargetThatLeavesRoomForAllChangesNothing) {
  for (int i = 0; i < 10; ++i) AddDecoder(/*target_ms=*/500);
  for (int i = 0; i < 10; ++i) AddDecoder();
  AddPrompt(1000);
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.decoding.size(), 20u);
  EXPECT_EQ(RowsOf(plan), 256);
}

TEST_F(BatchPlannerTest, HalfOfTheRoomIsReservedForPrompts) {
  AddDecoder(/*target_ms=*/25);  // 10 rows.
  for (int i = 0; i < 20; ++i) AddDecoder();
  EXPECT_EQ(Plan().decoding.size(), 10u);
  AddPrompt(1000);
  const BatchPlan plan = Plan();
  EXPECT_EQ(plan.decoding.size(), 6u);
  EXPECT_EQ(RowsOf(plan), 4);
}

TEST_F(BatchPlannerTest, SequencesThatDoNotFitTakeTurnsByWeight) {
  AddDecoder(/*target_ms=*/20);  // 6 rows.
  for (int i = 0; i < 5; ++i) AddDecoder(0, /*weight=*/4);
  for (int i = 0; i < 5; ++i) AddDecoder(0, /*weight=*/1);
  const std::vector<int> turns = CountTurns(1000);
  EXPECT_EQ(turns[0], 1000);
  for (int i = 1; i <= 5; ++i) EXPECT_NEAR(turns[i], 800, 8) << i;
  for (int i = 6; i <= 10; ++i) EXPECT_NEAR(turns[i], 200, 8) << i;
}

TEST_F(BatchPlannerTest, ATargetThatCannotBeKeptNeverStopsTheOthers) {
  AddDecoder(/*target_ms=*/1);
  AddDecoder(0, /*weight=*/10);
  for (int i = 0; i < 20; ++i) AddDecoder();
  AddPrompt(1000);
  for (int i = 0; i < 20; ++i) EXPECT_GE(RowsOf(Plan()), 1);
  const std::vector<int> turns = CountTurns(1000);
  EXPECT_EQ(turns[0], 1000);
  EXPECT_GE(*std::min_element(turns.begin(), turns.end()), 30);
}

TEST_F(BatchPlannerTest, ANewSequenceTakesTurnsLikeTheOthers) {
  AddDecoder(/*target_ms=*/15);  // 3 rows.
  for (int i = 0; i < 4; ++i) AddDecoder();
  EXPECT_THAT(CountTurns(100), ElementsAre(100, 50, 50, 50, 50));
  AddDecoder();
  for (const int turns : CountTurns(100)) EXPECT_GE(turns, 39);
  EXPECT_NEAR(CountTurns(100).back(), 40, 1);
}

}  // namespace
}  // namespace bastion
