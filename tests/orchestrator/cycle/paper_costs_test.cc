// Tests that cycles of the policy `bastion` measure the costs of the paper's equation 7: T_draft
// without a request's first draft, T_aux with tree construction.
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/fake_stages.h"
#include "tests/support/linear_costs.h"
#include "tests/support/manual_clock.h"

namespace bastion {
namespace {

using ::bastion::testing::FakeDrafter;
using ::bastion::testing::FakeVerifier;
using ::bastion::testing::ManualClock;

// Every look at the clock takes 0.1 ms, so everything that a cycle measures takes time.
class TickingClock final : public Clock {
 public:
  absl::Duration Now() const override { return now_ += absl::Microseconds(100); }

 private:
  mutable absl::Duration now_ = absl::ZeroDuration();
};

// A draft takes 2 ms, and 40 ms if it also reads a prompt.
class SlowFirstDrafter final : public Drafter {
 public:
  SlowFirstDrafter(Drafter* inner, ManualClock* clock) : inner_(inner), clock_(clock) {}
  absl::StatusOr<DrafterInfo> Info() override { return inner_->Info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    const bool reads_prompt = frontiers.at(0).new_tokens.size() > DraftCost::kUsualTokens;
    first_drafts += reads_prompt ? 1 : 0;
    clock_->Advance(absl::Milliseconds(reads_prompt ? 40 : 2));
    auto result = inner_->Expand(frontiers);
    if (result.ok() && !measures) result->trace = {};
    return result;
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

  bool measures = true;  // Returns a trace.
  int first_drafts = 0;

 private:
  Drafter* const inner_;
  ManualClock* const clock_;
};

class PaperCostsTest : public ::testing::Test {
 protected:
  // Runs a request with a prompt of 100 tokens.
  void Run(const std::string& policy, Drafter& drafter, const Clock& clock) {
    DecodeCycle cycle(*verifier_.Info(), &drafter, &verifier_, &costs_, &clock);
    DecodeRequest request;
    request.id = {++session_, 0};
    std::vector<TokenId> prompt;
    for (int i = 0; i < 100; ++i) prompt.push_back(i % testing::kToyVocabulary);
    request.prompt = std::move(prompt);
    request.max_tokens = 30;
    DecodeSequence sequence(std::move(request), Policy::Parse(policy)->NewRequest(
                                                    /*greedy=*/true, &costs_, &memory_));
    cycle.Open(sequence);
    while (cycle.Prefill(sequence, 4096)) {
    }
    while (!sequence.done()) ASSERT_TRUE(cycle.Step({&sequence}).ok());
    ASSERT_TRUE(sequence.status().ok()) << sequence.status();
    cycles_ = sequence.cycles();
    cycle.Close(sequence, drafter);
  }

  FakeVerifier verifier_;
  FakeDrafter drafter_{&verifier_};
  CostModel costs_ = *CostModel::Fit(*verifier_.Info(), testing::LinearTable());
  SharedLearning memory_;
  uint64_t session_ = 0;
  std::vector<CycleRecord> cycles_;  // The last request's.
};

TEST_F(PaperCostsTest, TreeConstructionIsMeasured) {
  const TickingClock clock;
  const auto tree_seconds = [this] { return costs_.CostOf({}, 0, 0).planning_seconds; };
  EXPECT_EQ(tree_seconds(), 0);
  for (int i = 0; i < 20; ++i) Run("bastion", drafter_, clock);
  // A look at the clock before the draft, and one after the tree is grown, at the least.
  EXPECT_GE(tree_seconds(), 1.9e-4);
  EXPECT_LE(tree_seconds(), 10e-4);
}

TEST_F(PaperCostsTest, FirstDraftsOfRequestsDoNotCountAsDrafts) {
  for (const bool measures : {true, false}) {
    ManualClock clock;
    SlowFirstDrafter drafter(&drafter_, &clock);
    drafter.measures = measures;
    for (int i = 0; i < 20; ++i) Run("bastion", drafter, clock);
    EXPECT_EQ(drafter.first_drafts, 20);
    EXPECT_NEAR(absl::ToDoubleMilliseconds(costs_.PaperCost(100).draft), 2, 0.01) << measures;
  }
}

TEST_F(PaperCostsTest, RecordsWhatTheTreeWasExpectedToCommit) {
  const ManualClock clock;
  Run("fixed:6", drafter_, clock);
  int context = 99;
  for (const CycleRecord& cycle : cycles_) {
    EXPECT_EQ(cycle.context, context);
    context += cycle.accepted + 1;
    EXPECT_GE(cycle.expected_length, 1);
    EXPECT_LE(cycle.expected_length, 1 + cycle.nodes);
    EXPECT_EQ(cycle.expected_length > 1, cycle.nodes > 0);
  }
  Run("ar", drafter_, clock);
  for (const CycleRecord& cycle : cycles_) EXPECT_EQ(cycle.expected_length, 1);
}

}  // namespace
}  // namespace bastion
