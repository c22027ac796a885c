#include "orchestrator/cycle/sequence.h"

#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/policy/shared_learning.h"
#include "tests/support/linear_costs.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kCandidates = 16;
const DraftRound kRound = {.candidates = kCandidates};

// Allows every text. One call of Push throws.
class ThrowingConstraint final : public TokenConstraint {
 public:
  // The call with number `throws_at`, counted over all copies.
  explicit ThrowingConstraint(int throws_at) : calls_left_(std::make_shared<int>(throws_at)) {}

  absl::StatusOr<std::unique_ptr<TokenConstraint>> Copy() const override {
    return std::make_unique<ThrowingConstraint>(*this);
  }
  absl::StatusOr<TokenSet> Allowed() override { return absl::UnimplementedError(""); }
  std::vector<TokenId> Forced() override { return {}; }
  absl::Status Push(TokenId) override {
    if (--*calls_left_ == 0) throw std::bad_alloc();
    return absl::OkStatus();
  }
  absl::Status Pop(int) override { return absl::OkStatus(); }
  bool complete() const override { return false; }

 private:
  std::shared_ptr<int> calls_left_;
};

class SequenceTest : public ::testing::Test {
 protected:
  DecodeSequence Make(std::vector<TokenId> prompt, int max_tokens,
                      absl::flat_hash_set<TokenId> stops = {},
                      KeptTrees kept_trees = KeptTrees::kNone,
                      std::shared_ptr<const TokenConstraint> constraint = nullptr) {
    DecodeRequest request;
    request.constraint = std::move(constraint);
    request.kept_trees = kept_trees;
    request.id = {4, 2};
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.stop_tokens = std::move(stops);
    return DecodeSequence(std::move(request),
                          Policy::Parse("fixed:16")->NewRequest(true, &costs_, &memory_));
  }

  // Commits a verified chain: the `accepted` tokens below the root, then `next`.
  static void CommitChain(DecodeSequence& sequence, const std::vector<TokenId>& accepted,
                          TokenId next) {
    GrownTree grown = {DraftTree(sequence.root()), BudgetReason::kPolicy, true};
    Acceptance acceptance;
    for (const TokenId token : accepted) {
      acceptance.path.push_back(grown.tree.Add(NodeIndex::Of(grown.tree.nodes()), token, -1.0f));
    }
    acceptance.next = next;
    sequence.Commit(grown, acceptance, {});
  }

  CostModel costs_ = testing::LinearCosts();
  SharedLearning memory_;
};

TEST_F(SequenceTest, PrefillLeavesTheLastPromptTokenAsTheRoot) {
  DecodeSequence sequence = Make({10, 11, 12, 13}, 5);
  EXPECT_EQ(sequence.root(), 13);
  PrefillItem item = sequence.NextPrefill(2);
  EXPECT_EQ(item.cached, 0);
  EXPECT_THAT(item.tokens, ElementsAre(10, 11));
  sequence.RecordPrefill(2);
  item = sequence.NextPrefill(2);
  EXPECT_EQ(item.cached, 2);
  EXPECT_THAT(item.tokens, ElementsAre(12));
  sequence.RecordPrefill(1);
  EXPECT_THAT(sequence.NextPrefill(2).tokens, IsEmpty());
  EXPECT_EQ(sequence.committed(), 3);
}

TEST_F(SequenceTest, APromptOfOneTokenNeedsNoPrefill) {
  DecodeSequence sequence = Make({10}, 5);
  EXPECT_THAT(sequence.NextPrefill(100).tokens, IsEmpty());
  EXPECT_EQ(sequence.root(), 10);
}

TEST_F(SequenceTest, EmitsTheAcceptedTokensAndTheNextToken) {
  DecodeSequence sequence = Make({10, 11}, 10);
  sequence.RecordPrefill(1);
  CommitChain(sequence, {20, 21}, 22);
  EXPECT_THAT(sequence.output(), ElementsAre(20, 21, 22));
  EXPECT_EQ(sequence.root(), 22);
  EXPECT_EQ(sequence.committed(), 4);  // 10, 11, 20, 21
  EXPECT_FALSE(sequence.done());
  ASSERT_EQ(sequence.cycles().size(), 1u);
  EXPECT_EQ(sequence.cycles()[0].accepted, 2);
  EXPECT_EQ(sequence.cycles()[0].committed_length, 3);
  EXPECT_EQ(sequence.cycles()[0].nodes, 2);
}

TEST_F(SequenceTest, AStopTokenAmongTheAcceptedTokensEndsTheOutput) {
  DecodeSequence sequence = Make({10}, 10, {21});
  CommitChain(sequence, {20, 21, 23}, 24);
  EXPECT_THAT(sequence.output(), ElementsAre(20, 21));
  EXPECT_EQ(sequence.reason(), FinishReason::kStopToken);
  EXPECT_TRUE(sequence.done());
  EXPECT_EQ(sequence.cycles()[0].committed_length, 2);
  EXPECT_EQ(sequence.cycles()[0].accepted, 3);
}

TEST_F(SequenceTest, AStopTokenAsTheNextTokenEndsTheOutput) {
  DecodeSequence sequence = Make({10}, 10, {24});
  CommitChain(sequence, {20}, 24);
  EXPECT_THAT(sequence.output(), ElementsAre(20, 24));
  EXPECT_EQ(sequence.reason(), FinishReason::kStopToken);
}

TEST_F(SequenceTest, TheLengthLimitTruncatesTheAcceptedTokens) {
  DecodeSequence sequence = Make({10}, 4);
  CommitChain(sequence, {}, 20);
  CommitChain(sequence, {21, 22, 23, 24}, 25);
  EXPECT_THAT(sequence.output(), ElementsAre(20, 21, 22, 23));
  EXPECT_EQ(sequence.reason(), FinishReason::kLength);
  EXPECT_EQ(sequence.cycles()[1].committed_length, 3);
}

TEST_F(SequenceTest, AStopTokenAtTheLengthLimitIsAStop) {
  DecodeSequence sequence = Make({10}, 2, {21});
  CommitChain(sequence, {20}, 21);
  EXPECT_EQ(sequence.reason(), FinishReason::kStopToken);
}

TEST_F(SequenceTest, AFrontierContainsTheTokensSinceTheLastExpandOrAllAfterAFailure) {
  DecodeSequence sequence = Make({10, 11, 12}, 20);
  sequence.RecordPrefill(2);
  Frontier frontier = sequence.NextFrontier(kRound);
  EXPECT_EQ(frontier.sequence, (SequenceId{4, 2}));
  EXPECT_EQ(frontier.committed, 2);
  EXPECT_EQ(frontier.root, 12);
  EXPECT_THAT(frontier.new_tokens, ElementsAre(10, 11));
  EXPECT_THAT(frontier.paths, ElementsAre(IsEmpty()));
  sequence.RecordExpand(/*ok=*/true);
  CommitChain(sequence, {20, 21}, 22);
  CommitChain(sequence, {}, 23);  // A cycle without a draft request.
  frontier = sequence.NextFrontier(kRound);
  EXPECT_EQ(frontier.committed, 6);
  EXPECT_EQ(frontier.root, 23);
  EXPECT_THAT(frontier.new_tokens, ElementsAre(12, 20, 21, 22));
  sequence.RecordExpand(/*ok=*/true);
  EXPECT_THAT(sequence.NextFrontier(kRound).new_tokens, IsEmpty());
  sequence.RecordExpand(/*ok=*/false);
  EXPECT_THAT(sequence.NextFrontier(kRound).new_tokens, ElementsAre(10, 11, 12, 20, 21, 22));
}

TEST_F(SequenceTest, PromptLeftCountsTheTokensBeforeTheRoot) {
  DecodeSequence sequence = Make({10, 11, 12, 13}, 5);
  EXPECT_EQ(sequence.prompt_left(), 3);
  sequence.RecordPrefill(2, absl::Milliseconds(2));
  EXPECT_EQ(sequence.prompt_left(), 1);
  sequence.RecordPrefill(1, absl::Milliseconds(3));
  EXPECT_EQ(sequence.prompt_left(), 0);
  EXPECT_EQ(sequence.prefill_time(), absl::Milliseconds(5));
  CommitChain(sequence, {20}, 21);
  EXPECT_EQ(sequence.prompt_left(), 0);
}

TEST_F(SequenceTest, APreemptedSequenceStartsOverWithItsPromptAndOutput) {
  DecodeSequence sequence = Make({10, 11}, 20);
  sequence.RecordPrefill(1);
  (void)sequence.NextFrontier(kRound);
  sequence.RecordExpand(/*ok=*/true);
  CommitChain(sequence, {20}, 21);
  sequence.RecordStarvation(absl::ResourceExhaustedError("full"));
  sequence.Preempt();
  EXPECT_EQ(sequence.id(), (SequenceId{4, 3}));
  EXPECT_EQ(sequence.committed(), 0);
  EXPECT_EQ(sequence.root(), 21);
  EXPECT_EQ(sequence.prompt_left(), 3);
  EXPECT_FALSE(sequence.starved());
  EXPECT_TRUE(sequence.awaits_first_draft());
  PrefillItem item = sequence.NextPrefill(2);
  EXPECT_EQ(item.sequence, sequence.id());
  EXPECT_THAT(item.tokens, ElementsAre(10, 11));
  sequence.RecordPrefill(2);
  item = sequence.NextPrefill(2);
  EXPECT_EQ(item.cached, 2);
  EXPECT_THAT(item.tokens, ElementsAre(20));
  sequence.RecordPrefill(1);
  EXPECT_THAT(sequence.NextFrontier(kRound).new_tokens, ElementsAre(10, 11, 20));
  CommitChain(sequence, {22}, 23);
  EXPECT_THAT(sequence.output(), ElementsAre(20, 21, 22, 23));
  EXPECT_EQ(sequence.cycles().size(), 2u);
}

// Text that is neither published nor verified again would be missing from the answer.
TEST_F(SequenceTest, AnExceptionInTheMiddleOfACommitDoesNotChangeTheText) {
  const auto constraint = std::make_shared<ThrowingConstraint>(/*throws_at=*/4);
  DecodeSequence sequence = Make({10, 11}, 6, {24}, KeptTrees::kNone, constraint);
  sequence.RecordPrefill(1);
  CommitChain(sequence, {20}, 21);
  EXPECT_THROW(CommitChain(sequence, {22, 23}, 24), std::bad_alloc);
  sequence.Preempt();
  EXPECT_EQ(sequence.root(), 21);
  EXPECT_THAT(sequence.output(), ElementsAre(20, 21));
  EXPECT_EQ(sequence.prompt_left(), 3);
  EXPECT_THAT(sequence.NextPrefill(3).tokens, ElementsAre(10, 11, 20));
  sequence.RecordPrefill(3);
  CommitChain(sequence, {22, 23}, 24);
  EXPECT_THAT(sequence.output(), ElementsAre(20, 21, 22, 23, 24));
  EXPECT_EQ(sequence.reason(), FinishReason::kStopToken);
  EXPECT_EQ(sequence.cycles().size(), 2u);
}

TEST_F(SequenceTest, AStarvedSequenceHasNotFailed) {
  DecodeSequence sequence = Make({10, 11}, 20);
  EXPECT_FALSE(sequence.starved());
  const absl::Status full = absl::ResourceExhaustedError("full");
  sequence.RecordStarvation(full);
  EXPECT_TRUE(sequence.starved());
  EXPECT_EQ(sequence.starvation(), full);
  EXPECT_FALSE(sequence.done());
  sequence.RecordPrefill(1);
  EXPECT_FALSE(sequence.starved());
  sequence.RecordStarvation(full);
  CommitChain(sequence, {}, 20);
  EXPECT_FALSE(sequence.starved());
}

TEST_F(SequenceTest, LimitsShrinkWithTheTokensLeft) {
  TargetInfo target;
  target.max_rows = 64;
  target.max_context = 100;
  DecodeSequence sequence = Make({10}, 4);
  EXPECT_EQ(sequence.Limits(target).depth, 3);
  CommitChain(sequence, {20}, 21);
  EXPECT_EQ(sequence.Limits(target).depth, 1);
  EXPECT_EQ(sequence.Limits(target).context, 2);
}

TEST_F(SequenceTest, TheServersLimitIsForTreesThatThePlannerDoesNotBound) {
  TargetInfo target;
  target.max_rows = 512;
  target.max_context = 40000;
  const auto nodes = [&](const char* policy) {
    DecodeRequest request;
    request.prompt = {1};
    request.max_tokens = 1000;
    request.node_cap = {.on_cpu = 64, .on_gpu = 200};
    const DecodeSequence sequence(std::move(request),
                                  Policy::Parse(policy)->NewRequest(true, &costs_, &memory_));
    return sequence.Limits(target).nodes;
  };
  EXPECT_EQ(nodes("fixed:512"), 64);
  EXPECT_EQ(nodes("default"), 511);
  EXPECT_EQ(nodes("adaptive"), 511);
  target.on_gpu = true;
  EXPECT_EQ(nodes("fixed:512"), 200);
  EXPECT_EQ(nodes("default"), 511);
}

// A tree of 512 rows after 30,000 tokens had 15 million logits edited in one cycle.
TEST_F(SequenceTest, PenaltiesOnALongTextLimitTheTree) {
  TargetInfo target;
  target.max_rows = 512;
  target.max_context = 40000;
  const auto nodes = [&](int tokens, float penalty) {
    DecodeRequest request;
    request.prompt = std::vector<TokenId>(tokens + 1, 1);
    request.max_tokens = 1000;
    request.sampling.repetition_penalty = penalty;
    DecodeSequence sequence(std::move(request),
                            Policy::Parse("ar")->NewRequest(true, &costs_, &memory_));
    sequence.RecordPrefill(tokens);
    return sequence.Limits(target).nodes;
  };
  EXPECT_EQ(nodes(30000, 1), 511);
  EXPECT_EQ(nodes(30000, 1.5f), 8);
  EXPECT_EQ(nodes(300, 1.5f), 511);
}

TEST_F(SequenceTest, ASequenceEndsByStopAfterOrByFail) {
  DecodeSequence stopped = Make({10}, 9);
  CommitChain(stopped, {20, 21, 22}, 23);
  stopped.StopAfter(/*tokens=*/2, FinishReason::kStopString);
  EXPECT_TRUE(stopped.done());
  EXPECT_THAT(stopped.output(), ElementsAre(20, 21));
  EXPECT_EQ(stopped.cycles().back().committed_length, 2);
  EXPECT_TRUE(stopped.status().ok());
  DecodeSequence failed = Make({10}, 4);
  failed.Fail(absl::UnavailableError("gone"));
  EXPECT_TRUE(failed.done());
  EXPECT_EQ(failed.reason(), FinishReason::kNone);
}

TEST_F(SequenceTest, KeepsEachTreeUntilTheNextCycleAndItsTotalsIfTheRequestAsks) {
  DecodeSequence sequence = Make({10, 11}, 10, {}, KeptTrees::kLast);
  sequence.RecordPrefill(1);
  CommitChain(sequence, {20, 21}, 22);
  const auto& cycles = sequence.cycles();
  ASSERT_NE(cycles[0].tree, nullptr);
  EXPECT_EQ(cycles[0].tree->tree.tokens(), (std::vector<TokenId>{11, 20, 21}));
  EXPECT_THAT(cycles[0].tree->sources, ElementsAre(NodeSource::kDraft, NodeSource::kDraft));
  EXPECT_EQ(cycles[0].tree->accepted, (std::vector<NodeIndex>{1, 2}));
  EXPECT_EQ(cycles[0].tree->next, 22);
  CommitChain(sequence, {}, 23);
  ASSERT_NE(cycles[1].tree, nullptr);
  EXPECT_EQ(cycles[1].tree->tree.nodes(), 0);
  EXPECT_EQ(cycles[0].tree, nullptr) << "a long answer would keep hundreds of megabytes";
  const SourceTotals& draft = cycles[0].totals[static_cast<size_t>(NodeSource::kDraft)];
  EXPECT_EQ(draft.nodes, 2);
  EXPECT_EQ(draft.accepted, 2);
}

TEST_F(SequenceTest, KeepsAllTreesForAMeasurement) {
  DecodeSequence sequence = Make({10, 11}, 10, {}, KeptTrees::kAll);
  sequence.RecordPrefill(1);
  CommitChain(sequence, {20, 21}, 22);
  CommitChain(sequence, {}, 23);
  EXPECT_NE(sequence.cycles()[0].tree, nullptr);
  EXPECT_NE(sequence.cycles()[1].tree, nullptr);
}

TEST_F(SequenceTest, KeepsOneTreeForAViewerUntilTheNextCycle) {
  DecodeSequence sequence = Make({10, 11}, 10);
  sequence.RecordPrefill(1);
  CommitChain(sequence, {20}, 21);
  EXPECT_EQ(sequence.cycles()[0].tree, nullptr);
  sequence.KeepNextTree();
  CommitChain(sequence, {22}, 23);
  EXPECT_NE(sequence.cycles()[1].tree, nullptr);
  CommitChain(sequence, {24}, 25);
  EXPECT_EQ(sequence.cycles()[1].tree, nullptr);
  EXPECT_EQ(sequence.cycles()[2].tree, nullptr);
}

}  // namespace
}  // namespace bastion
