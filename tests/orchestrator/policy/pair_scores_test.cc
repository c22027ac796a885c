// Trees of all policies from drafts with pair scores (marginals.h).
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "orchestrator/tree/best_first.h"
#include "tests/orchestrator/policy/policy_fixture.h"
#include "tests/support/borrow.h"
#include "tests/support/pair_reference.h"

namespace bastion {
namespace {

using ::bastion::testing::AddPairScores;
using ::bastion::testing::MarginalsOf;
using ::testing::ElementsAre;

// Two positions with the tokens {0, 1} and {100, 101}. 101 follows 0, and 100 follows 1. Without
// pair scores, 101 would be the less probable child of both.
Marginals CrossedDraft() {
  Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.5, 0.4}});
  marginals.pair_scores = {0, 0, 0, 0, 0, 3, 3, 0};
  return marginals;
}

// The first child of each token of depth 1.
std::map<TokenId, TokenId> FirstChildren(const DraftTree& tree) {
  std::map<TokenId, TokenId> children;
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    if (tree.depth(node) == 2)
      children.try_emplace(tree.token(tree.parent(node)), tree.token(node));
  }
  return children;
}

using PairPolicyTest = PolicyFixture;

TEST_F(PairPolicyTest, EveryPolicyScoresChildrenByTheirParent) {
  for (const char* policy :
       {"chain", "linear:2", "assisted", "dynatree", "eagle", "specblock", "beam:2x2", "fixed:6",
        "bastion", "adaptive", "default", "fixed:6+coupled"}) {
    const DraftTree tree = Grow(*Request(policy), kRoot, CrossedDraft()).tree;
    const std::map<TokenId, TokenId> children = FirstChildren(tree);
    ASSERT_TRUE(children.contains(0)) << policy;
    EXPECT_EQ(children.at(0), 101) << policy;
    if (!children.contains(1)) continue;
    EXPECT_EQ(children.at(1), 100) << policy;
  }
  for (const char* policy : {"beam:2x2", "fixed:6", "eagle"}) {
    const DraftTree tree = Grow(*Request(policy), kRoot, CrossedDraft()).tree;
    EXPECT_TRUE(FirstChildren(tree).contains(1)) << policy;
  }
}

TEST_F(PairPolicyTest, AChainIsTheWalkOfTheSelector) {
  AddPairScores(random_, 4, &marginals_);
  for (const char* policy : {"chain", "chain:15", "linear:15", "beam:1x15"}) {
    const DraftTree tree = Grow(*Request(policy), kRoot, marginals_).tree;
    EXPECT_TRUE(tree.IsChain());
    const std::vector<TokenId> tokens(tree.tokens().begin() + 1, tree.tokens().end());
    EXPECT_EQ(tokens, testing::SelectorWalk(marginals_)) << policy;
  }
}

TEST_F(PairPolicyTest, APriorThatKnowsNothingKeepsTheTree) {
  AddPairScores(random_, 2, &marginals_);
  const DraftTree expected = GrowBestFirst(kRoot, testing::Borrow(DraftCandidates(marginals_)), 40);
  SharedLearning memory(PriorInputs{.vocabulary = kVocabulary});
  const std::unique_ptr<RequestPolicy> request =
      Policy::Parse("fixed:40+prior")->NewRequest(/*greedy=*/true, &costs_, &memory);
  const DraftTree tree = Grow(*request, kRoot, marginals_).tree;
  EXPECT_EQ(tree.tokens(), expected.tokens());
  EXPECT_EQ(tree.parents(), expected.parents());
}

TEST_F(PairPolicyTest, RequestsLearnThatPairScoresAreWrong) {
  // The target ignores the pair scores: it always chooses 0 and then 100.
  SharedLearning memory(PriorInputs{.vocabulary = kVocabulary});
  const std::unique_ptr<RequestPolicy> request =
      Policy::Parse("fixed:6+prior:table")->NewRequest(/*greedy=*/true, &costs_, &memory);
  for (int cycle = 0; cycle < 200; ++cycle) {
    const GrownTree grown = Grow(*request, kRoot, CrossedDraft());
    ASSERT_EQ(grown.tree.token(1), 0);
    // Every other cycle settles fewer tokens than the draft has positions.
    request->Observe(grown, cycle % 2 == 0 ? Acceptance{{1}, 100} : Acceptance{{}, 0});
  }
  const CandidateWeights& weights =
      memory.at(DraftMode::kGreedy, Policy::Prior::kTable).draft_weights;
  EXPECT_LT(weights.At(2)[kPairTerm], 0.1);
  EXPECT_EQ(weights.At(1)[kPairTerm], 1);  // All pair scores after the root are equal.
  EXPECT_EQ(FirstChildren(Grow(*request, kRoot, CrossedDraft()).tree).at(0), 100);
}

TEST_F(PairPolicyTest, ANodeBelongsToTheDraftByItsProbabilityAfterItsParent) {
  SharedLearning memory(PriorInputs{.vocabulary = kVocabulary});
  const Policy policy = *Policy::Parse("fixed:4+prior:request");
  CandidateSource candidates({.policy = policy, .memory = &memory});
  // After 0 came 100 in every other case.
  candidates.AppendPrompt({0, 100, 5, 0, 50, 6, 0, 100, 8, 0, 51, kRoot}, "");
  DraftTree tree(kRoot);
  tree.Add(0, 0, -0.5f);
  tree.Add(1, 100, -2.0f);
  Marginals marginals = CrossedDraft();
  // 0.5 by the marginals, and 0.04 after 0.
  const CycleDraft draft(marginals);
  EXPECT_THAT(candidates.SourcesOf(tree, draft),
              ElementsAre(NodeSource::kDraft, NodeSource::kRequest));
  marginals.pair_scores.clear();
  EXPECT_THAT(candidates.SourcesOf(tree, CycleDraft(marginals)),
              ElementsAre(NodeSource::kDraft, NodeSource::kDraft));
}

}  // namespace
}  // namespace bastion
