// Tests TreeGrower with a transition prior.
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/tree/best_first.h"
#include "tests/orchestrator/policy/grower_fixture.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

// The prompt is "1 2 3 … 9" three times and then 1, the first root. The table is random. The target
// continues the repetition.
class PriorTest : public TreeGrowerTest {
 protected:
  static constexpr int kVocabulary = 2000;

  TreeGrower PriorGrower(const std::string& policy) {
    TreeGrower grower(*Policy::Parse(policy), /*greedy=*/true, &costs_, &prior_memory_);
    std::vector<TokenId> prompt;
    for (int i = 0; i < 28; ++i) prompt.push_back(1 + i % 9);
    grower.ObservePrompt(prompt);
    return grower;
  }
  // The next tokens of the repetition after `root`.
  static std::vector<TokenId> Copy(TokenId root, int length) {
    std::vector<TokenId> tokens;
    for (int i = 0; i < length; ++i) tokens.push_back(1 + (root - 1 + i + 1) % 9);
    return tokens;
  }
  // The target's acceptance of `tree` if it continues the repetition.
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

  const TransitionGains gains_{testing::RandomTable(kVocabulary, 8, 1)};
  SpeculationMemory prior_memory_{PriorInputs{.vocabulary = kVocabulary, .table = &gains_}};
};

TEST_F(PriorTest, EveryPolicyStaysWithinTheLimitsAndGrowsValidTrees) {
  for (const char* policy : {"chain+prior", "chain:4+prior", "beam:4x15+prior", "fixed:48+prior",
                             "bastion+prior", "adaptive+prior", "default", "ngram:48"}) {
    for (const TreeLimits& limits :
         {TreeLimits{100, 0, 15}, {100, 5, 0}, {100, 1, 3}, {100, 40, 2}, {100, 127, 15}}) {
      TreeGrower grower = PriorGrower(policy);
      const GrownTree grown = grower.DecideDraft(1, limits) ? grower.Grow(1, marginals_, limits)
                                                            : grower.GrowWithoutDraft(1, limits);
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
  EXPECT_FALSE(grower.DecideDraft(1, kWide));
  const GrownTree grown = grower.GrowWithoutDraft(1, kWide);
  EXPECT_EQ(grown.tree.tokens(), (std::vector<TokenId>{1, 2, 3, 4, 5}));
  EXPECT_EQ(grown.reason, BudgetReason::kPolicy);
  EXPECT_FALSE(grown.drafted);
}

TEST_F(PriorTest, EmptyDraftsAreReplacedByDraftFreeTrees) {
  for (const char* policy :
       {"chain+prior", "fixed:8+prior", "bastion+prior", "adaptive+prior", "default"}) {
    TreeGrower grower = PriorGrower(policy);
    ASSERT_TRUE(grower.DecideDraft(1, kWide)) << policy;
    const GrownTree grown = grower.Grow(1, Marginals(), kWide);
    EXPECT_GE(grown.tree.nodes(), 3) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kNoDraft) << policy;
    EXPECT_TRUE(grown.drafted) << policy;
    EXPECT_EQ(AcceptCopy(grown.tree).path.size(),
              static_cast<size_t>(grown.tree.depth(grown.tree.rows() - 1)))
        << policy;
  }
}

TEST_F(PriorTest, SiblingsOfTheSpineGetDifferentChildren) {
  // The draft is 40 or 2, then 41 or 42. In the prompt, 3 always follows 2.
  marginals_ = testing::MarginalsOf({{0.6, 0.4}, {0.5, 0.5}});
  marginals_.tokens = {40, 2, 41, 42};
  TreeGrower grower = PriorGrower("fixed:8+prior:request");
  const GrownTree grown = grower.Grow(1, marginals_, kWide);
  std::map<TokenId, TokenId> best_child;  // By the token of the node at depth 1.
  for (NodeIndex i = 1; i < grown.tree.rows(); ++i) {
    if (grown.tree.depth(i) == 2) {
      best_child.emplace(grown.tree.token(grown.tree.parent(i)), grown.tree.token(i));
    }
  }
  EXPECT_EQ(best_child[2], 3);
  EXPECT_NE(best_child[40], 3);
}

TEST_F(PriorTest, AFixedBudgetCanUseManyChildrenOfOneNode) {
  marginals_ = testing::MarginalsOf({std::vector<double>(64, 1.0 / 64)});
  TreeGrower coupled(*Policy::Parse("fixed:60+coupled"), /*greedy=*/false, &costs_, &memory_);
  EXPECT_EQ(coupled.Grow(kRoot, marginals_, kWide).tree.nodes(), 60);
}

TEST_F(PriorTest, EmptyDraftsCloseTheGate) {
  costs_.ObserveDraft(absl::Milliseconds(5));
  TreeGrower grower = PriorGrower("adaptive+prior");
  TokenId root = 1;
  int requests = 0;
  for (int cycle = 0; cycle < 400; ++cycle) {
    const bool wants = grower.DecideDraft(root, kWide);
    const Marginals empty;
    const GrownTree grown = wants ? grower.Grow(root, cycle < 40 ? marginals_ : empty, kWide)
                                  : grower.GrowWithoutDraft(root, kWide);
    const Acceptance acceptance = AcceptCopy(grown.tree);
    grower.Observe(grown, acceptance, wants ? absl::Milliseconds(5) : absl::ZeroDuration());
    root = acceptance.next;
    requests += cycle >= 100 && wants ? 1 : 0;
  }
  EXPECT_LT(requests, 30);
  EXPECT_LT(grower.state().gate.level(), DraftGate::kHighestLevel);
}

TEST_F(PriorTest, ARepetitionNeedsFewDrafts) {
  costs_.ObserveDraft(absl::Milliseconds(5));
  TreeGrower grower = PriorGrower("adaptive+prior");
  TokenId root = 1;
  int drafts = 0;
  double tokens = 0;
  for (int cycle = 0; cycle < 200; ++cycle) {
    const bool wants = grower.DecideDraft(root, kWide);
    const GrownTree grown =
        wants ? grower.Grow(root, marginals_, kWide) : grower.GrowWithoutDraft(root, kWide);
    const Acceptance acceptance = AcceptCopy(grown.tree);
    grower.Observe(grown, acceptance, wants ? absl::Milliseconds(5) : absl::ZeroDuration());
    root = acceptance.next;
    drafts += cycle >= 50 && wants ? 1 : 0;
    tokens += cycle >= 50 ? acceptance.committed_length() : 0;
  }
  EXPECT_LT(drafts, 15);
  EXPECT_GT(tokens / 150, 8);
}

TEST_F(PriorTest, AClosedGateStillAllowsDraftFreeTrees) {
  TreeGrower grower = PriorGrower("adaptive+prior");
  TokenId root = 1;
  while (grower.state().gate.open()) {
    (void)grower.DecideDraft(root, kWide);
    const GrownTree grown = grower.Grow(root, Marginals(), kWide);
    const Acceptance acceptance = AcceptCopy(grown.tree);
    grower.Observe(grown, acceptance, absl::Seconds(1));  // The drafter stalled.
    root = acceptance.next;
  }
  ASSERT_FALSE(grower.DecideDraft(root, kWide));
  EXPECT_GT(grower.GrowWithoutDraft(root, kWide).tree.nodes(), 3);
}

TEST_F(PriorTest, WithoutAVocabularyThePriorSuffixHasNoEffect) {
  TreeGrower grower(*Policy::Parse("fixed:16+prior"), /*greedy=*/true, &costs_, &memory_);
  grower.ObservePrompt({1, 2, 3, 1, 2, 3, 1});
  EXPECT_EQ(grower.Grow(kRoot, marginals_, kWide).tree, GrowBestFirst(kRoot, candidates_, 16));
}

TEST_F(PriorTest, APromptWithInvalidTokensIsHarmless) {
  TreeGrower grower = PriorGrower("adaptive+prior");
  grower.ObservePrompt({5, 1 << 30, -7, kVocabulary});
  (void)grower.DecideDraft(kVocabulary, kWide);
  EXPECT_GT(grower.Grow(kVocabulary, marginals_, kWide).tree.rows(), 1);
}

}  // namespace
}  // namespace bastion
