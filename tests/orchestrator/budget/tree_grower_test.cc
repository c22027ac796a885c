#include "orchestrator/budget/tree_grower.h"

#include <map>
#include <string>

#include "gtest/gtest.h"
#include "orchestrator/budget/grown_tree.h"
#include "orchestrator/tree/beam.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/chain.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

using ::bastion::testing::Awkward;
using ::bastion::testing::RandomMarginals;

constexpr TokenId kRoot = 7;
constexpr TokenId kOther = 99999;
constexpr TreeLimits kWide = {100, 127, 15};

// 128 measured rows: 10 ms and 0.1 ms a row; 1 ms of overhead.
CostModel Costs() {
  CalibrationTable table;
  for (const int rows : {1, 16, 128}) {
    const double seconds = 0.010 + 0.0001 * rows;
    table.points.push_back({rows, 100, seconds, seconds + 0.001});
  }
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, 10, 2};
  target.peaks = {1e6, 1e6};
  return *CostModel::Fit(target, table);
}

class TreeGrowerTest : public ::testing::Test {
 protected:
  TreeGrower Grower(const std::string& policy) {
    return TreeGrower(*Policy::Parse(policy), /*greedy=*/true, &costs_, &memory_);
  }
  GrownTree Grow(const std::string& policy, const TreeLimits& limits = kWide) {
    return Grower(policy).Grow(kRoot, marginals_, limits);
  }

  CostModel costs_ = Costs();
  SpeculationMemory memory_;
  std::mt19937 random_{1};
  Marginals marginals_ = RandomMarginals(random_, 15, 32, Awkward::kNone, 6.0);
  MarginalRows scores_{marginals_};
};

TEST_F(TreeGrowerTest, EveryPolicyGrowsItsTree) {
  EXPECT_EQ(Grow("ar").tree, DraftTree(kRoot));
  EXPECT_EQ(Grow("chain").tree, GrowChain(kRoot, scores_, 15));
  EXPECT_EQ(Grow("chain:4").tree, GrowChain(kRoot, scores_, 4));
  EXPECT_EQ(Grow("beam:4x15").tree, GrowBeam(kRoot, scores_, 4, 15));
  EXPECT_EQ(Grow("fixed:48").tree, GrowBestFirst(kRoot, scores_, 48));
  for (const char* policy : {"ar", "chain", "chain:4", "beam:4x15", "fixed:48"}) {
    EXPECT_EQ(Grow(policy).reason, BudgetReason::kPolicy) << policy;
  }
  for (const char* policy : {"bastion", "adaptive", "default"}) {
    const GrownTree grown = Grow(policy);
    EXPECT_GT(grown.tree.nodes(), 0) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kCost) << policy;
    EXPECT_EQ(grown.tree, GrowBestFirst(kRoot, scores_, grown.tree.nodes())) << policy;
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

TEST_F(TreeGrowerTest, LimitsAreTheReasonWhenTheyBind) {
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

TEST_F(TreeGrowerTest, FailedDraftIsAPlainStep) {
  for (const char* policy : {"chain", "beam:4x15", "fixed:48", "bastion", "adaptive"}) {
    const GrownTree grown = Grower(policy).Grow(kRoot, Marginals(), kWide);
    EXPECT_EQ(grown.tree, DraftTree(kRoot)) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kNoDraft) << policy;
    EXPECT_TRUE(grown.drafted) << policy;
  }
}

TEST_F(TreeGrowerTest, WhoWantsADraft) {
  EXPECT_FALSE(Grower("ar").WantsDraft(kRoot, kWide));
  for (const char* policy : {"chain", "beam:4x15", "fixed:48", "bastion", "adaptive"}) {
    EXPECT_TRUE(Grower(policy).WantsDraft(kRoot, kWide)) << policy;
    EXPECT_FALSE(Grower(policy).WantsDraft(kRoot, {100, 0, 15})) << policy;
    EXPECT_FALSE(Grower(policy).WantsDraft(kRoot, {100, 127, 0})) << policy;
  }
}

TEST_F(TreeGrowerTest, SkipSaysWhy) {
  EXPECT_EQ(Grower("ar").Skip(kRoot, kWide).reason, BudgetReason::kPolicy);
  EXPECT_EQ(Grower("fixed:4").Skip(kRoot, {100, 0, 15}).reason, BudgetReason::kCap);
  EXPECT_EQ(Grower("adaptive").Skip(kRoot, kWide).reason, BudgetReason::kGate);
  EXPECT_FALSE(Grower("adaptive").Skip(kRoot, kWide).drafted);
}

TEST_F(TreeGrowerTest, PredictsTheVerifyOfItsTree) {
  // 1 + 15 rows: 10 + 1.6 ms.
  EXPECT_NEAR(absl::ToDoubleMilliseconds(Grow("fixed:15").predicted_verify), 11.6, 1e-6);
  EXPECT_NEAR(absl::ToDoubleMilliseconds(Grower("ar").Skip(kRoot, kWide).predicted_verify), 10.1,
              1e-6);
}

TEST_F(TreeGrowerTest, HangingDrafterClosesTheGate) {
  TreeGrower grower = Grower("adaptive");
  int drafts = 0;
  for (; grower.WantsDraft(kRoot, kWide); ++drafts) {
    grower.Observe(grower.Grow(kRoot, Marginals(), kWide), {{}, kOther}, absl::Milliseconds(50));
    ASSERT_LT(drafts, 100);
  }
  EXPECT_LT(drafts, 10);
}

TEST_F(TreeGrowerTest, DrafterThatIsGoneCostsNothingAndStaysWanted) {
  TreeGrower grower = Grower("adaptive");
  for (int i = 0; i < 100; ++i) {
    grower.Observe(grower.Grow(kRoot, Marginals(), kWide), {{}, kOther}, absl::ZeroDuration());
  }
  EXPECT_TRUE(grower.WantsDraft(kRoot, kWide));
}

TEST_F(TreeGrowerTest, ReadingThePromptDoesNotCloseTheGateWhileDraftsPay) {
  costs_.ObserveDraft(absl::Milliseconds(2));
  TreeGrower grower = Grower("adaptive");
  grower.Observe(grower.Grow(kRoot, marginals_, kWide), {{1, 2}, kOther}, absl::Seconds(3));
  EXPECT_TRUE(grower.WantsDraft(kRoot, kWide));
  EXPECT_GT(grower.state().gate.level(), DraftGate::kStartLevel);
  // The second one counts in full.
  grower.Observe(grower.Grow(kRoot, marginals_, kWide), {{1, 2}, kOther}, absl::Seconds(3));
  EXPECT_LT(grower.state().gate.level(), DraftGate::kStartLevel);
}

TEST_F(TreeGrowerTest, NewSequencesStartFromWhatOthersLearned) {
  TreeGrower first = Grower("adaptive");
  while (first.WantsDraft(kRoot, kWide)) {
    first.Observe(first.Grow(kRoot, marginals_, kWide), {{}, kOther}, absl::Milliseconds(5));
  }
  EXPECT_FALSE(Grower("adaptive").WantsDraft(kRoot, kWide));
  EXPECT_LT(Grower("adaptive").state().survival.Factor(PathKind::kSpine, 1), 0.9);
  // Sampled text is another matter.
  TreeGrower sampled(*Policy::Parse("adaptive"), /*greedy=*/false, &costs_, &memory_);
  EXPECT_TRUE(sampled.WantsDraft(kRoot, kWide));
}

TEST_F(TreeGrowerTest, PaceIsTokensPerPredictedTime) {
  costs_.ObserveDraft(absl::Milliseconds(2));
  TreeGrower grower = Grower("adaptive");
  const GrownTree grown = grower.Grow(kRoot, marginals_, kWide);
  grower.Observe(grown, {{1, 2}, kOther}, absl::Milliseconds(2));
  // 2 ms of draft, 1 ms of overhead and the predicted verify, for three tokens.
  const double seconds = 0.003 + absl::ToDoubleSeconds(grown.predicted_verify);
  EXPECT_NEAR(grower.state().pace.tokens_per_second(), 3 / seconds, 1e-6);
}

TEST_F(TreeGrowerTest, OldEvidenceFadesWhileNothingIsDrafted) {
  TreeGrower grower = Grower("adaptive");
  for (int i = 0; i < 20; ++i) {
    grower.Observe(grower.Grow(kRoot, marginals_, kWide), {{}, kOther}, absl::Milliseconds(5));
  }
  const double disappointed = grower.state().survival.Factor(PathKind::kSpine, 1);
  for (int i = 0; i < 300; ++i) {
    grower.Observe(grower.Skip(kRoot, kWide), {{}, kOther}, absl::ZeroDuration());
  }
  EXPECT_LT(disappointed, 0.5);
  EXPECT_GT(grower.state().survival.Factor(PathKind::kSpine, 1), 0.9);
}

TEST_F(TreeGrowerTest, OnlyTheAdaptivePolicyLearns) {
  for (const char* policy : {"ar", "chain", "fixed:48", "bastion"}) {
    TreeGrower grower = Grower(policy);
    for (int i = 0; i < 50; ++i) {
      grower.Observe(grower.Grow(kRoot, marginals_, kWide), {{}, kOther}, absl::Seconds(1));
    }
    EXPECT_EQ(grower.state().survival.Factor(PathKind::kSpine, 1), 1.0) << policy;
    EXPECT_TRUE(Grower("adaptive").WantsDraft(kRoot, kWide)) << policy;
  }
}

// The prompt "1 2 3 … 9" three times over, and a table that knows nothing: what comes is a copy.
class PriorTest : public TreeGrowerTest {
 protected:
  static constexpr int kVocabulary = 2000;

  TreeGrower PriorGrower(const std::string& policy) {
    TreeGrower grower(*Policy::Parse(policy), /*greedy=*/true, &costs_, &knowing_);
    std::vector<TokenId> prompt;
    for (int i = 0; i < 28; ++i) prompt.push_back(1 + i % 9);
    grower.Read(prompt);
    return grower;
  }
  // The copy's next tokens after `root`.
  static std::vector<TokenId> Copy(TokenId root, int length) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < length; ++i) tokens.push_back(1 + (root - 1 + i + 1) % 9);
    return tokens;
  }
  // What the target accepts of `tree` when it goes on copying.
  static Acceptance AcceptCopy(const DraftTree& tree) {
    Acceptance acceptance;
    const std::vector<TokenId> copy = Copy(tree.token(0), 64);
    NodeIndex tip = 0;
    for (NodeIndex i = 1; i < tree.rows(); ++i) {
      if (tree.parent(i) != tip || tree.token(i) != copy[acceptance.path.size()]) continue;
      acceptance.path.push_back(tip = i);
    }
    acceptance.next = copy[acceptance.path.size()];
    return acceptance;
  }

  const TransitionGains gains_{testing::NonsenseTable(kVocabulary, 8, 1)};
  SpeculationMemory knowing_{PriorSources{.vocabulary = kVocabulary, .table = &gains_}};
};

TEST_F(PriorTest, EveryPolicyStaysWithinTheLimitsAndGrowsSoundTrees) {
  for (const char* policy : {"chain+prior", "chain:4+prior", "beam:4x15+prior", "fixed:48+prior",
                             "bastion+prior", "adaptive+prior", "default", "ngram:48"}) {
    for (const TreeLimits& limits :
         {TreeLimits{100, 0, 15}, {100, 5, 0}, {100, 1, 3}, {100, 40, 2}, {100, 127, 15}}) {
      TreeGrower grower = PriorGrower(policy);
      const GrownTree grown = grower.WantsDraft(1, limits) ? grower.Grow(1, marginals_, limits)
                                                           : grower.Skip(1, limits);
      EXPECT_LE(grown.tree.nodes(), limits.nodes) << policy;
      for (NodeIndex i = 0; i < grown.tree.rows(); ++i) {
        EXPECT_LE(grown.tree.depth(i), limits.depth) << policy;
      }
      EXPECT_TRUE(grown.tree.Validate(kVocabulary).ok()) << policy;
    }
  }
}

TEST_F(PriorTest, NgramCopiesWithoutADraft) {
  TreeGrower grower = PriorGrower("ngram:4");
  EXPECT_FALSE(grower.WantsDraft(1, kWide));
  const GrownTree grown = grower.Skip(1, kWide);
  EXPECT_EQ(grown.tree.tokens(), (std::vector<TokenId>{1, 2, 3, 4, 5}));
  EXPECT_EQ(grown.reason, BudgetReason::kPolicy);
  EXPECT_FALSE(grown.drafted);
}

TEST_F(PriorTest, WithoutADrafterDraftFreeTreesTakeOver) {
  for (const char* policy :
       {"chain+prior", "fixed:8+prior", "bastion+prior", "adaptive+prior", "default"}) {
    TreeGrower grower = PriorGrower(policy);
    ASSERT_TRUE(grower.WantsDraft(1, kWide)) << policy;
    const GrownTree grown = grower.Grow(1, Marginals(), kWide);
    EXPECT_GE(grown.tree.nodes(), 3) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kNoDraft) << policy;
    EXPECT_TRUE(grown.drafted) << policy;
    EXPECT_EQ(AcceptCopy(grown.tree).path.size(),
              static_cast<size_t>(grown.tree.depth(grown.tree.rows() - 1)))
        << policy;
  }
}

TEST_F(PriorTest, SiblingsOfTheSpineGetChildrenOfTheirOwn) {
  // 40 or 2, then 41 or 42: after 2 the request always wrote 3.
  marginals_ = testing::MarginalsOf({{0.6, 0.4}, {0.5, 0.5}});
  marginals_.tokens = {40, 2, 41, 42};
  TreeGrower grower = PriorGrower("fixed:8+prior:request");
  const GrownTree grown = grower.Grow(1, marginals_, kWide);
  std::map<TokenId, TokenId> best_child;  // Of the nodes at depth 1.
  for (NodeIndex i = 1; i < grown.tree.rows(); ++i) {
    if (grown.tree.depth(i) == 2) {
      best_child.emplace(grown.tree.token(grown.tree.parent(i)), grown.tree.token(i));
    }
  }
  EXPECT_EQ(best_child[2], 3);
  EXPECT_NE(best_child[40], 3);
}

TEST_F(PriorTest, ManyChildrenStayPossible) {
  marginals_ = testing::MarginalsOf({std::vector<double>(64, 1.0 / 64)});
  TreeGrower coupled(*Policy::Parse("fixed:60+coupled"), /*greedy=*/false, &costs_, &memory_);
  EXPECT_EQ(coupled.Grow(kRoot, marginals_, kWide).tree.nodes(), 60);
}

TEST_F(PriorTest, ADrafterThatAnswersNothingIsNotAskedForever) {
  costs_.ObserveDraft(absl::Milliseconds(5));
  TreeGrower grower = PriorGrower("adaptive+prior");
  TokenId root = 1;
  int asked = 0;
  for (int cycle = 0; cycle < 400; ++cycle) {
    const bool wants = grower.WantsDraft(root, kWide);
    const Marginals nothing;
    const GrownTree grown = wants ? grower.Grow(root, cycle < 40 ? marginals_ : nothing, kWide)
                                  : grower.Skip(root, kWide);
    const Acceptance acceptance = AcceptCopy(grown.tree);
    grower.Observe(grown, acceptance, wants ? absl::Milliseconds(5) : absl::ZeroDuration());
    root = acceptance.next;
    asked += cycle >= 100 && wants ? 1 : 0;
  }
  EXPECT_LT(asked, 30);
  EXPECT_LT(grower.state().gate.level(), DraftGate::kHighestLevel);
}

TEST_F(PriorTest, ACopyIsNotWaitedFor) {
  costs_.ObserveDraft(absl::Milliseconds(5));
  TreeGrower grower = PriorGrower("adaptive+prior");
  TokenId root = 1;
  int drafts = 0;
  double tokens = 0;
  for (int cycle = 0; cycle < 200; ++cycle) {
    const bool wants = grower.WantsDraft(root, kWide);
    const GrownTree grown = wants ? grower.Grow(root, marginals_, kWide) : grower.Skip(root, kWide);
    const Acceptance acceptance = AcceptCopy(grown.tree);
    grower.Observe(grown, acceptance, wants ? absl::Milliseconds(5) : absl::ZeroDuration());
    root = acceptance.next;
    drafts += cycle >= 50 && wants ? 1 : 0;
    tokens += cycle >= 50 ? acceptance.committed_length() : 0;
  }
  EXPECT_LT(drafts, 15);
  EXPECT_GT(tokens / 150, 8);
}

TEST_F(PriorTest, AShutGateLeavesDraftFreeTrees) {
  TreeGrower grower = PriorGrower("adaptive+prior");
  TokenId root = 1;
  while (grower.state().gate.open()) {
    (void)grower.WantsDraft(root, kWide);
    const GrownTree grown = grower.Grow(root, Marginals(), kWide);
    const Acceptance acceptance = AcceptCopy(grown.tree);
    grower.Observe(grown, acceptance, absl::Seconds(1));  // A drafter that hangs.
    root = acceptance.next;
  }
  ASSERT_FALSE(grower.WantsDraft(root, kWide));
  EXPECT_GT(grower.Skip(root, kWide).tree.nodes(), 3);
}

TEST_F(PriorTest, WithoutAKnownVocabularyThereIsNoPrior) {
  TreeGrower grower(*Policy::Parse("fixed:16+prior"), /*greedy=*/true, &costs_, &memory_);
  grower.Read({1, 2, 3, 1, 2, 3, 1});
  EXPECT_EQ(grower.Grow(kRoot, marginals_, kWide).tree, GrowBestFirst(kRoot, scores_, 16));
}

TEST_F(PriorTest, ABadPromptIsHarmless) {
  TreeGrower grower = PriorGrower("adaptive+prior");
  grower.Read({5, 1 << 30, -7, kVocabulary});
  (void)grower.WantsDraft(kVocabulary, kWide);
  EXPECT_GT(grower.Grow(kVocabulary, marginals_, kWide).tree.rows(), 1);
}

TEST(BudgetReasonTest, EveryReasonHasItsName) {
  EXPECT_EQ(BudgetReasonName(BudgetReason::kPolicy), "policy");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kCost), "cost");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kCap), "cap");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kExhausted), "exhausted");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kGate), "gate");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kNoDraft), "no_draft");
}

TEST(TreeLimitsTest, TheTightestLimitCounts) {
  TargetInfo target;
  target.max_rows = 128;
  target.max_context = 1000;
  TreeLimits limits = LimitsFor(target, 100, 50, std::nullopt);
  EXPECT_EQ(limits.context, 100);
  EXPECT_EQ(limits.nodes, 127);  // 128 rows, one of them the root.
  EXPECT_EQ(limits.depth, 49);   // Of 50 tokens the last one is the target's next choice.
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
