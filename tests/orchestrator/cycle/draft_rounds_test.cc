#include "orchestrator/cycle/draft_rounds.h"

#include "tests/orchestrator/cycle/decode_cycle_fixture.h"

namespace bastion {
namespace {

// Every Expand call takes 2 ms.
class TwoMillisecondDrafter final : public Drafter {
 public:
  TwoMillisecondDrafter(Drafter* inner, testing::ManualClock* clock)
      : inner_(inner), clock_(clock) {}
  absl::StatusOr<DrafterInfo> Info() override { return inner_->Info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    ++calls;
    clock_->Advance(absl::Milliseconds(2));
    return inner_->Expand(frontiers);
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

  int calls = 0;

 private:
  Drafter* const inner_;
  testing::ManualClock* const clock_;
};

class DraftRoundsTest : public DecodeCycleTest {
 protected:
  // Runs the rounds of one cycle. Returns the nodes of the trees in `nodes_`.
  DraftOutcome Run(const std::vector<DecodeSequence*>& sequences) {
    std::vector<GrowingTree> growing;
    for (DecodeSequence* sequence : sequences) {
      growing.push_back({sequence, sequence->Limits(*verifier_.Info())});
      sequence->policy().Begin(sequence->root(), growing.back().limits, planner_.min_values());
    }
    StopWatch watch(clock_);
    clock_.Advance(absl::Milliseconds(1));
    const DraftOutcome outcome = rounds_.Run(absl::MakeSpan(growing), planner_, watch);
    nodes_.clear();
    for (DecodeSequence* sequence : sequences) {
      const TreeProposal proposal = sequence->policy().ProposeTree();
      nodes_.push_back(sequence->policy().Finish(0, proposal.end).tree.nodes());
    }
    return outcome;
  }

  TwoMillisecondDrafter timed_{&drafter_, &clock_};
  ForestPlanner planner_;
  DraftRounds rounds_{testing::kToyVocabulary, &timed_, &costs_, &clock_};
  std::vector<int> nodes_;
};

TEST_F(DraftRoundsTest, OneCallServesAllSequencesThatDraft) {
  DecodeSequence first = Make(1, "fixed:8"), plain = Make(2, "ar"), second = Make(3, "chain");
  for (DecodeSequence* sequence : {&first, &plain, &second}) Begin(*sequence);
  const DraftOutcome outcome = Run({&first, &plain, &second});
  EXPECT_TRUE(outcome.requested);
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_EQ(timed_.calls, 1);
  EXPECT_EQ(drafter_.frontiers.size(), 2u);
  EXPECT_GT(nodes_[0], 0);
  EXPECT_EQ(nodes_[1], 0);
  EXPECT_GT(nodes_[2], 0);
}

TEST_F(DraftRoundsTest, WithoutASequenceThatDraftsThereIsNoCall) {
  DecodeSequence plain = Make(1, "ar");
  Begin(plain);
  EXPECT_FALSE(Run({&plain}).requested);
  EXPECT_EQ(timed_.calls, 0);
}

TEST_F(DraftRoundsTest, CallsAndTheTimeBeforeThemAreMeasured) {
  DecodeSequence sequence = Make(1, "fixed:8");
  Begin(sequence);
  const DraftOutcome outcome = Run({&sequence});
  EXPECT_EQ(outcome.choosing, absl::Milliseconds(1));
  EXPECT_EQ(outcome.spent, absl::Milliseconds(2));
  EXPECT_EQ(outcome.ended - outcome.began, absl::Milliseconds(2));
  EXPECT_EQ(outcome.ended, clock_.Now());
}

TEST_F(DraftRoundsTest, AnAutoregressiveDrafterIsAskedAgain) {
  drafter_.expands_nodes = true;
  DecodeSequence sequence = Make(1, "linear:4");
  Begin(sequence);
  const DraftOutcome outcome = Run({&sequence});
  EXPECT_EQ(timed_.calls, 4);
  EXPECT_EQ(nodes_[0], 4);
  EXPECT_EQ(outcome.spent, absl::Milliseconds(8));
  EXPECT_EQ(outcome.ended - outcome.began, absl::Milliseconds(8));
}

TEST_F(DraftRoundsTest, AFailedCallLeavesTreesWithoutADraft) {
  drafter_.expand_error = absl::UnavailableError("the drafter is gone");
  DecodeSequence sequence = Make(1, "fixed:8");
  Begin(sequence);
  const DraftOutcome outcome = Run({&sequence});
  EXPECT_TRUE(outcome.requested);
  EXPECT_TRUE(absl::IsUnavailable(outcome.status)) << outcome.status;
  EXPECT_EQ(nodes_[0], 0);
  EXPECT_TRUE(sequence.awaits_first_draft());
}

TEST_F(DraftRoundsTest, AnInvalidDraftIsDropped) {
  drafter_.sends_invalid_marginals = true;
  DecodeSequence sequence = Make(1, "fixed:8");
  Begin(sequence);
  EXPECT_FALSE(Run({&sequence}).status.ok());
  EXPECT_EQ(nodes_[0], 0);
}

TEST_F(DraftRoundsTest, TheKindOfDrafterIsLearnedOnceAndAgainAfterAFailure) {
  DecodeSequence sequence = Make(1, "linear:4");
  Begin(sequence);
  for (int i = 0; i < 3; ++i) (void)Run({&sequence});
  EXPECT_EQ(drafter_.info_calls, 1);
  drafter_.expand_error = absl::UnavailableError("the drafter is gone");
  (void)Run({&sequence});
  EXPECT_EQ(drafter_.info_calls, 1);
  // Another drafter has taken its place.
  drafter_.expand_error.reset();
  drafter_.expands_nodes = true;
  timed_.calls = 0;
  (void)Run({&sequence});
  EXPECT_EQ(drafter_.info_calls, 2);
  EXPECT_EQ(timed_.calls, 4);
}

}  // namespace
}  // namespace bastion
