#include "orchestrator/policy/tree_grower.h"

#include <string>

#include "gtest/gtest.h"
#include "orchestrator/policy/grown_tree.h"
#include "orchestrator/tree/beam.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/chain.h"
#include "tests/orchestrator/policy/grower_fixture.h"

namespace bastion {
namespace {

TEST_F(TreeGrowerTest, EveryPolicyGrowsItsTree) {
  EXPECT_EQ(Grow("ar").tree, DraftTree(kRoot));
  EXPECT_EQ(Grow("chain").tree, GrowChain(kRoot, candidates_, 15));
  EXPECT_EQ(Grow("chain:4").tree, GrowChain(kRoot, candidates_, 4));
  EXPECT_EQ(Grow("beam:4x15").tree, GrowBeam(kRoot, candidates_, 4, 15));
  EXPECT_EQ(Grow("fixed:48").tree, GrowBestFirst(kRoot, candidates_, 48));
  for (const char* policy : {"ar", "chain", "chain:4", "beam:4x15", "fixed:48"}) {
    EXPECT_EQ(Grow(policy).reason, BudgetReason::kPolicy) << policy;
  }
  for (const char* policy : {"bastion", "adaptive", "default"}) {
    const GrownTree grown = Grow(policy);
    EXPECT_GT(grown.tree.nodes(), 0) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kCost) << policy;
    EXPECT_EQ(grown.tree, GrowBestFirst(kRoot, candidates_, grown.tree.nodes())) << policy;
  }
}

TEST_F(TreeGrowerTest, NoPolicyExceedsTheLimits) {
  for (const char* policy :
       {"ar", "chain", "chain:4", "beam:4x15", "fixed:48", "bastion", "adaptive"}) {
    for (const int nodes : {0, 1, 3, 40}) {
      for (const int depth : {0, 1, 2, 15}) {
        const GrownTree grown = Grow(policy, {100, nodes, depth});
        EXPECT_LE(grown.tree.nodes(), nodes) << policy;
        for (NodeIndex i = 0; i < grown.tree.rows(); ++i) {
          EXPECT_LE(grown.tree.depth(i), depth) << policy;
        }
        EXPECT_TRUE(grown.tree.Validate(100000).ok()) << policy;
      }
    }
  }
}

TEST_F(TreeGrowerTest, ReportsWhyTheTreeStoppedGrowing) {
  EXPECT_EQ(Grow("fixed:48", {100, 20, 15}).reason, BudgetReason::kCap);
  EXPECT_EQ(Grow("beam:4x15", {100, 20, 15}).reason, BudgetReason::kCap);
  EXPECT_EQ(Grow("chain", {100, 127, 3}).reason, BudgetReason::kCap);
  EXPECT_EQ(Grow("adaptive", {100, 1, 15}).reason, BudgetReason::kCap);
  EXPECT_EQ(Grow("bastion", {100, 1, 15}).reason, BudgetReason::kCap);
  marginals_ = testing::MarginalsOf({{0.6, 0.4}});
  EXPECT_EQ(Grow("fixed:48", {100, 127, 15}).reason, BudgetReason::kExhausted);
  EXPECT_EQ(Grow("chain:4", {100, 127, 15}).reason, BudgetReason::kExhausted);
}

TEST_F(TreeGrowerTest, AdaptiveStaysWithinTheMeasuredRows) {
  CalibrationTable small;
  small.points = {{1, 100, 0.010, 0.010}, {8, 100, 0.010, 0.010}};
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  costs_ = *CostModel::Fit(target, small);
  EXPECT_EQ(Grow("adaptive").tree.nodes(), 7);
}

TEST_F(TreeGrowerTest, AFailedDraftLeadsToAPlainStep) {
  for (const char* policy : {"chain", "beam:4x15", "fixed:48", "bastion", "adaptive"}) {
    const GrownTree grown = Grower(policy).Grow(kRoot, Marginals(), kWide);
    EXPECT_EQ(grown.tree, DraftTree(kRoot)) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kNoDraft) << policy;
    EXPECT_TRUE(grown.drafted) << policy;
  }
}

TEST_F(TreeGrowerTest, DecideDraftIsFalseForArAndWithoutRoomForNodes) {
  EXPECT_FALSE(Grower("ar").DecideDraft(kRoot, kWide));
  for (const char* policy : {"chain", "beam:4x15", "fixed:48", "bastion", "adaptive"}) {
    EXPECT_TRUE(Grower(policy).DecideDraft(kRoot, kWide)) << policy;
    EXPECT_FALSE(Grower(policy).DecideDraft(kRoot, {100, 0, 15})) << policy;
    EXPECT_FALSE(Grower(policy).DecideDraft(kRoot, {100, 127, 0})) << policy;
  }
}

TEST_F(TreeGrowerTest, GrowWithoutDraftReportsTheReason) {
  EXPECT_EQ(Grower("ar").GrowWithoutDraft(kRoot, kWide).reason, BudgetReason::kPolicy);
  EXPECT_EQ(Grower("fixed:4").GrowWithoutDraft(kRoot, {100, 0, 15}).reason, BudgetReason::kCap);
  EXPECT_EQ(Grower("adaptive").GrowWithoutDraft(kRoot, kWide).reason, BudgetReason::kGate);
  EXPECT_FALSE(Grower("adaptive").GrowWithoutDraft(kRoot, kWide).drafted);
}

TEST_F(TreeGrowerTest, PredictsTheVerifyTimeOfTheTree) {
  // 1 + 15 rows take 10 + 1.6 ms.
  EXPECT_NEAR(absl::ToDoubleMilliseconds(Grow("fixed:15").predicted_verify), 11.6, 1e-6);
  EXPECT_NEAR(
      absl::ToDoubleMilliseconds(Grower("ar").GrowWithoutDraft(kRoot, kWide).predicted_verify),
      10.1, 1e-6);
}

TEST_F(TreeGrowerTest, AStalledDrafterClosesTheGate) {
  TreeGrower grower = Grower("adaptive");
  int drafts = 0;
  for (; grower.DecideDraft(kRoot, kWide); ++drafts) {
    grower.Observe(grower.Grow(kRoot, Marginals(), kWide), {{}, kOther}, absl::Milliseconds(50));
    ASSERT_LT(drafts, 100);
  }
  EXPECT_LT(drafts, 10);
}

TEST_F(TreeGrowerTest, ADrafterThatFailsInstantlyDoesNotCloseTheGate) {
  TreeGrower grower = Grower("adaptive");
  for (int i = 0; i < 100; ++i) {
    grower.Observe(grower.Grow(kRoot, Marginals(), kWide), {{}, kOther}, absl::ZeroDuration());
  }
  EXPECT_TRUE(grower.DecideDraft(kRoot, kWide));
}

TEST_F(TreeGrowerTest, ASlowFirstDraftDoesNotCloseTheGateWhileDraftsSaveTime) {
  costs_.ObserveDraft(absl::Milliseconds(2));
  TreeGrower grower = Grower("adaptive");
  grower.Observe(grower.Grow(kRoot, marginals_, kWide), {{1, 2}, kOther}, absl::Seconds(3));
  EXPECT_TRUE(grower.DecideDraft(kRoot, kWide));
  EXPECT_GT(grower.state().gate.level(), DraftGate::kStartLevel);
  // The time of the second draft counts in full.
  grower.Observe(grower.Grow(kRoot, marginals_, kWide), {{1, 2}, kOther}, absl::Seconds(3));
  EXPECT_LT(grower.state().gate.level(), DraftGate::kStartLevel);
}

TEST_F(TreeGrowerTest, NewSequencesStartFromTheSharedState) {
  TreeGrower first = Grower("adaptive");
  while (first.DecideDraft(kRoot, kWide)) {
    first.Observe(first.Grow(kRoot, marginals_, kWide), {{}, kOther}, absl::Milliseconds(5));
  }
  EXPECT_FALSE(Grower("adaptive").DecideDraft(kRoot, kWide));
  EXPECT_LT(Grower("adaptive").state().survival.Factor(PathKind::kSpine, 1), 0.9);
  // Greedy and sampled requests have separate state.
  TreeGrower sampled(*Policy::Parse("adaptive"), /*greedy=*/false, &costs_, &memory_);
  EXPECT_TRUE(sampled.DecideDraft(kRoot, kWide));
}

TEST_F(TreeGrowerTest, PaceIsTokensPerPredictedSecond) {
  costs_.ObserveDraft(absl::Milliseconds(2));
  TreeGrower grower = Grower("adaptive");
  const GrownTree grown = grower.Grow(kRoot, marginals_, kWide);
  grower.Observe(grown, {{1, 2}, kOther}, absl::Milliseconds(2));
  // Three tokens in 2 ms of draft, 1 ms of overhead and the predicted verify time.
  const double seconds = 0.003 + absl::ToDoubleSeconds(grown.predicted_verify);
  EXPECT_NEAR(grower.state().pace.tokens_per_second(), 3 / seconds, 1e-6);
}

TEST_F(TreeGrowerTest, OldObservationsDecayWithoutDrafts) {
  TreeGrower grower = Grower("adaptive");
  for (int i = 0; i < 20; ++i) {
    grower.Observe(grower.Grow(kRoot, marginals_, kWide), {{}, kOther}, absl::Milliseconds(5));
  }
  const double before = grower.state().survival.Factor(PathKind::kSpine, 1);
  for (int i = 0; i < 300; ++i) {
    grower.Observe(grower.GrowWithoutDraft(kRoot, kWide), {{}, kOther}, absl::ZeroDuration());
  }
  EXPECT_LT(before, 0.5);
  EXPECT_GT(grower.state().survival.Factor(PathKind::kSpine, 1), 0.9);
}

TEST_F(TreeGrowerTest, OnlyTheAdaptivePolicyLearns) {
  for (const char* policy : {"ar", "chain", "fixed:48", "bastion"}) {
    TreeGrower grower = Grower(policy);
    for (int i = 0; i < 50; ++i) {
      grower.Observe(grower.Grow(kRoot, marginals_, kWide), {{}, kOther}, absl::Seconds(1));
    }
    EXPECT_EQ(grower.state().survival.Factor(PathKind::kSpine, 1), 1.0) << policy;
    EXPECT_TRUE(Grower("adaptive").DecideDraft(kRoot, kWide)) << policy;
  }
}

TEST(BudgetReasonTest, EveryReasonHasAName) {
  EXPECT_EQ(BudgetReasonName(BudgetReason::kPolicy), "policy");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kCost), "cost");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kCap), "cap");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kExhausted), "exhausted");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kGate), "gate");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kNoDraft), "no_draft");
}

TEST(TreeLimitsTest, TheTightestLimitApplies) {
  TargetInfo target;
  target.max_rows = 128;
  target.max_context = 1000;
  TreeLimits limits = LimitsFor(target, 100, 50, std::nullopt);
  EXPECT_EQ(limits.context, 100);
  EXPECT_EQ(limits.nodes, 127);  // 128 rows include the root.
  EXPECT_EQ(limits.depth, 49);   // The last of the 50 tokens is the target's next choice.
  EXPECT_EQ(LimitsFor(target, 100, 50, 16).nodes, 16);
  EXPECT_EQ(LimitsFor(target, 100, 50, 16).depth, 16);
  EXPECT_EQ(LimitsFor(target, 100, 50, 0).nodes, 0);
  EXPECT_EQ(LimitsFor(target, 990, 50, std::nullopt).nodes, 9);
  EXPECT_EQ(LimitsFor(target, 1000, 50, std::nullopt).nodes, 0);
  EXPECT_EQ(LimitsFor(target, 1001, 50, std::nullopt).nodes, 0);
  EXPECT_EQ(LimitsFor(target, 100, 1, std::nullopt).depth, 0);
  EXPECT_EQ(LimitsFor(target, 100, 0, -3).nodes, 0);
}

}  // namespace
}  // namespace bastion
