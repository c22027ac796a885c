// Tests the policies that state the size of their trees.
#include "orchestrator/policy/named_request.h"

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "orchestrator/tree/beam.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/chain.h"
#include "orchestrator/tree/eagle.h"
#include "tests/orchestrator/policy/policy_fixture.h"
#include "tests/support/borrow.h"
#include "tests/support/dynatree_reference.h"
#include "tests/support/node_oracle.h"

namespace bastion {
namespace {

using NamedRequestTest = PolicyFixture;

TEST_F(NamedRequestTest, EveryPolicyGrowsItsTree) {
  EXPECT_EQ(Grow("ar").tree, DraftTree(kRoot));
  EXPECT_EQ(Grow("chain").tree, GrowChain(kRoot, candidates_, 15));
  EXPECT_EQ(Grow("chain:4").tree, GrowChain(kRoot, candidates_, 4));
  EXPECT_EQ(Grow("beam:4x15").tree, GrowBeam(kRoot, candidates_, 4, 15));
  EXPECT_EQ(Grow("fixed:48").tree, GrowBestFirst(kRoot, candidates_, 48));
  EXPECT_EQ(Grow("eagle").tree, GrowEagle(kRoot, candidates_, EagleShape()));
  EXPECT_EQ(Grow("eagle:4,3,33").tree, GrowEagle(kRoot, candidates_, {4, 3, 33}));
  for (const char* policy :
       {"ar", "chain", "chain:4", "beam:4x15", "fixed:48", "eagle", "eagle:4,3,33"}) {
    EXPECT_EQ(Grow(policy).reason, BudgetReason::kPolicy) << policy;
  }
  const GrownTree grown = Grow("bastion");
  EXPECT_GT(grown.tree.nodes(), 0);
  EXPECT_EQ(grown.reason, BudgetReason::kCost);
  EXPECT_EQ(grown.tree, GrowBestFirst(kRoot, candidates_, grown.tree.nodes()));
}

TEST_F(NamedRequestTest, AllNodesAreCertainAndAllDraftsRequired) {
  for (const char* policy : {"chain", "beam:4x15", "fixed:48", "eagle", "bastion"}) {
    const std::unique_ptr<RequestPolicy> request = Request(policy);
    EXPECT_FALSE(request->planned()) << policy;
    request->Begin(kRoot, kWide, Flat(0));
    const DraftRound* round = request->NextRound();
    ASSERT_NE(round, nullptr) << policy;
    EXPECT_TRUE(round->required) << policy;
    request->AddDraft({marginals_});
    EXPECT_EQ(request->NextRound(), nullptr) << policy;
    const TreeProposal proposal = request->ProposeTree();
    EXPECT_TRUE(proposal.values.empty()) << policy;
    EXPECT_EQ(proposal.certain, request->Finish(0, BudgetReason::kCost).tree.nodes()) << policy;
  }
}

TEST_F(NamedRequestTest, NoPolicyExceedsTheLimits) {
  for (const char* policy : {"ar", "chain", "chain:4", "beam:4x15", "fixed:48", "eagle",
                             "eagle:64,64,4096", "bastion"}) {
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

TEST_F(NamedRequestTest, ReportsWhyTheTreeStoppedGrowing) {
  EXPECT_EQ(Grow("fixed:48", {100, 20, 15}).reason, BudgetReason::kRows);
  EXPECT_EQ(Grow("beam:4x15", {100, 20, 15}).reason, BudgetReason::kRows);
  EXPECT_EQ(Grow("eagle", {100, 20, 15}).reason, BudgetReason::kRows);
  EXPECT_EQ(Grow("eagle:1,7,8", {100, 127, 3}).reason, BudgetReason::kLength);
  // The pool has 8 nodes.
  EXPECT_EQ(Grow("eagle:1,7,60").reason, BudgetReason::kPolicy);
  EXPECT_EQ(Grow("chain", {100, 127, 3}).reason, BudgetReason::kLength);
  EXPECT_EQ(Grow("bastion", {100, 1, 15}).reason, BudgetReason::kRows);
  EXPECT_EQ(Grow("fixed:48", {100, 20, 15, BudgetReason::kRequestLimit}).reason,
            BudgetReason::kRequestLimit);
  EXPECT_EQ(Grow("fixed:4", {100, 0, 15}).reason, BudgetReason::kRows);
  marginals_ = testing::MarginalsOf({{0.6, 0.4}});
  EXPECT_EQ(Grow("fixed:48").reason, BudgetReason::kExhausted);
  EXPECT_EQ(Grow("eagle").reason, BudgetReason::kExhausted);
  EXPECT_EQ(Grow("chain:4").reason, BudgetReason::kExhausted);
}

TEST_F(NamedRequestTest, AFailedDraftLeadsToAPlainStep) {
  for (const char* policy : {"chain", "beam:4x15", "fixed:48", "eagle", "bastion"}) {
    const GrownTree grown = Grow(*Request(policy), kRoot, Marginals());
    EXPECT_EQ(grown.tree, DraftTree(kRoot)) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kNoDraft) << policy;
    EXPECT_TRUE(grown.drafted) << policy;
  }
}

TEST_F(NamedRequestTest, DoesNotDraftWithoutRoomForNodes) {
  for (const char* policy :
       {"ar", "chain", "beam:4x15", "fixed:48", "eagle", "specblock", "bastion"}) {
    for (const TreeLimits& limits : {TreeLimits{100, 0, 15}, TreeLimits{100, 127, 0}}) {
      const std::unique_ptr<RequestPolicy> request = Request(policy);
      request->Begin(kRoot, limits, Flat(0));
      EXPECT_EQ(request->NextRound(), nullptr) << policy;
    }
  }
  const std::unique_ptr<RequestPolicy> ar = Request("ar");
  ar->Begin(kRoot, kWide, Flat(0));
  EXPECT_EQ(ar->NextRound(), nullptr);
}

TEST_F(NamedRequestTest, WithAPriorEveryTreeIsValid) {
  for (const char* policy : {"chain+prior", "chain:4+prior", "beam:4x15+prior", "fixed:48+prior",
                             "eagle+prior", "bastion+prior", "ngram:48"}) {
    for (const TreeLimits& limits :
         {TreeLimits{100, 0, 15}, {100, 5, 0}, {100, 1, 3}, {100, 40, 2}, {100, 127, 15}}) {
      const GrownTree grown = Grow(*PriorRequest(policy), 1, marginals_, limits);
      EXPECT_LE(grown.tree.nodes(), limits.nodes) << policy;
      for (NodeIndex i = 0; i < grown.tree.rows(); ++i) {
        EXPECT_LE(grown.tree.depth(i), limits.depth) << policy;
      }
      EXPECT_TRUE(grown.tree.Validate(kVocabulary).ok()) << policy;
    }
  }
}

// ---- drafters that expand nodes in rounds ----

// Grows the tree of `policy` with `oracle`, round by round, and counts the rounds.
GrownTree GrowInRounds(RequestPolicy& request, const testing::NodeOracle& oracle, int* rounds,
                       int* nodes = nullptr) {
  request.Begin(50, {100, 127, 127}, {});
  *rounds = 0;
  for (const DraftRound* round = request.NextRound(); round != nullptr;
       round = request.NextRound()) {
    std::vector<Marginals> marginals;
    for (const TreePath& path : round->paths) marginals.push_back(oracle.At(path));
    if (nodes != nullptr) *nodes += static_cast<int>(round->paths.size());
    request.AddDraft(std::move(marginals), /*expands_nodes=*/true);
    ++*rounds;
  }
  const TreeProposal proposal = request.ProposeTree();
  return request.Finish(0, proposal.end);
}

TEST_F(NamedRequestTest, RoundsFindTheTreeThatAllExpandedNodesWouldGive) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const testing::NodeOracle oracle(seed, 4, 1 + seed % 4 * 4);
    CycleDraft all = oracle.Full(6);
    int rounds = 0;
    for (const int nodes : {1, 2, 5, 12, 20}) {
      const auto request = Request(absl::StrCat("fixed:", nodes));
      const DraftTree expected = GrowBestFirst(50, testing::Borrow(DraftCandidates(all, 5)), nodes);
      bool reaches_end = false;
      for (NodeIndex i = 0; i < expected.rows(); ++i) reaches_end |= expected.depth(i) >= 5;
      if (reaches_end) continue;  // The full draft ends there.
      EXPECT_EQ(GrowInRounds(*request, oracle, &rounds).tree, expected) << seed << " " << nodes;
      EXPECT_LE(rounds, 6);
    }
    EXPECT_EQ(GrowInRounds(*Request("beam:3x4"), oracle, &rounds).tree,
              GrowBeam(50, testing::Borrow(DraftCandidates(all)), 3, 4));
    EXPECT_EQ(rounds, 4);
    EXPECT_EQ(GrowInRounds(*Request("eagle:3,4,30"), oracle, &rounds).tree,
              GrowEagle(50, testing::Borrow(DraftCandidates(all)), {3, 4, 30}));
    EXPECT_EQ(rounds, 5);
  }
}

TEST_F(NamedRequestTest, AChainTakesOneRoundPerNode) {
  const testing::NodeOracle oracle(1, 4);
  int rounds = 0, nodes = 0;
  const GrownTree grown = GrowInRounds(*Request("linear:6"), oracle, &rounds, &nodes);
  EXPECT_TRUE(grown.tree.IsChain());
  EXPECT_EQ(grown.tree.nodes(), 6);
  EXPECT_EQ(grown.reason, BudgetReason::kPolicy);
  EXPECT_EQ(rounds, 6);
  EXPECT_EQ(nodes, 6);
  (void)GrowInRounds(*Request("fixed:1"), oracle, &rounds);
  EXPECT_EQ(rounds, 1);
  EXPECT_EQ(GrowInRounds(*Request("chain"), oracle, &rounds).tree.nodes(), kDefaultRounds);
}

TEST_F(NamedRequestTest, RoundsOfASpecBlockDrafterExpandWhatItsBlocksDoNotReach) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const testing::NodeOracle oracle(seed, 5, 8, 4);
    int rounds = 0;
    for (const int nodes : {1, 4, 12, 40}) {
      const auto request = Request(absl::StrCat("fixed:", nodes));
      const DraftTree tree = GrowInRounds(*request, oracle, &rounds).tree;
      const std::vector<TreePath> expected = oracle.BestPaths(nodes);
      ASSERT_EQ(tree.nodes(), nodes);
      for (NodeIndex node = 1; node < tree.rows(); ++node) {
        EXPECT_EQ(PathOf(tree, node), expected[node - 1]) << seed << " " << nodes;
      }
    }
    // A chain needs one round per block.
    EXPECT_EQ(GrowInRounds(*Request("chain:10"), oracle, &rounds).tree.nodes(), 10);
    EXPECT_EQ(rounds, 3);
    EXPECT_EQ(GrowInRounds(*Request("chain"), oracle, &rounds).tree.nodes(), kDefaultRounds);
    EXPECT_EQ(rounds, 4);
    for (const char* policy : {"beam:3x4", "eagle:3,4,30", "dynatree", "bastion", "assisted"}) {
      const DraftTree tree = GrowInRounds(*Request(policy), oracle, &rounds).tree;
      EXPECT_GT(tree.nodes(), 0) << policy;
      EXPECT_TRUE(tree.Validate(1000).ok()) << policy;
    }
  }
}

TEST_F(NamedRequestTest, DynaTreeDrivesTheDrafterLikeItsAlgorithm) {
  const auto request = Request("dynatree:d0=3,dmax=5,n=24,w=0");
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const testing::NodeOracle oracle(seed, 5, 1 + seed % 5 * 3);
    int rounds = 0;
    const DraftTree tree = GrowInRounds(*request, oracle, &rounds).tree;
    const auto expected =
        testing::DynaTreeReference([&](const TreePath& path) { return oracle.Step(path); },
                                   {1, 2, 3, 0.4, 0.9, 3, 5, 0.03, 0.2, 0.03, 24});
    ASSERT_EQ(tree.nodes(), static_cast<int>(expected.size())) << seed;
    std::vector<TreePath> paths(tree.rows());
    for (NodeIndex node = 1; node < tree.rows(); ++node) {
      paths[node] = paths[tree.parent(node)];
      paths[node].push_back(tree.token(node));
      EXPECT_EQ(paths[node], expected[node - 1]) << seed;
    }
    EXPECT_LE(rounds, 6);
    request->Observe({tree}, {{}, 1});
  }
}

TEST_F(NamedRequestTest, BastionTakesFurtherRoundsOnlyWhileTheyPay) {
  const testing::NodeOracle oracle(1, 4, 8);
  const auto rounds_at = [&](absl::Duration round_time) {
    costs_ = testing::LinearCosts();
    for (int i = 0; i < 50; ++i) {
      for (const int paths : {1, 2, 4, 8, 16, 32}) {
        costs_.further_round().Observe({paths, round_time});
      }
    }
    int rounds = 0;
    (void)GrowInRounds(*Request("bastion"), oracle, &rounds);
    return rounds;
  };
  EXPECT_EQ(rounds_at(absl::Seconds(10)), 1);
  EXPECT_GT(rounds_at(absl::Microseconds(1)), 2);
}

TEST_F(NamedRequestTest, ADrafterThatFailsBetweenRoundsLeavesTheTreeSoFar) {
  const testing::NodeOracle oracle(1, 4);
  const auto request = Request("linear:6");
  request->Begin(50, {100, 127, 127}, {});
  ASSERT_NE(request->NextRound(), nullptr);
  request->AddDraft({oracle.At({})}, /*expands_nodes=*/true);
  ASSERT_NE(request->NextRound(), nullptr);
  request->AddDraft({}, /*expands_nodes=*/true);
  EXPECT_EQ(request->NextRound(), nullptr);
  EXPECT_EQ(request->ProposeTree().certain, 1);
  const GrownTree grown = request->Finish(0, BudgetReason::kCost);
  EXPECT_EQ(grown.tree.nodes(), 1);
  EXPECT_TRUE(grown.drafted);
}

TEST_F(NamedRequestTest, NgramCopiesWithoutADraft) {
  const std::unique_ptr<RequestPolicy> request = PriorRequest("ngram:4");
  request->Begin(1, kWide, Flat(0));
  EXPECT_EQ(request->NextRound(), nullptr);
  EXPECT_EQ(request->ProposeTree().certain, 4);
  const GrownTree grown = request->Finish(0, BudgetReason::kCost);
  EXPECT_EQ(grown.tree.tokens(), (std::vector<TokenId>{1, 2, 3, 4, 5}));
  EXPECT_EQ(grown.reason, BudgetReason::kPolicy);
  EXPECT_FALSE(grown.drafted);
}

TEST_F(NamedRequestTest, EmptyDraftsAreReplacedByDraftFreeTrees) {
  for (const char* policy :
       {"chain+prior", "fixed:8+prior", "eagle:2,7,9+prior", "bastion+prior"}) {
    const GrownTree grown = Grow(*PriorRequest(policy), 1, Marginals());
    EXPECT_GE(grown.tree.nodes(), 3) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kNoDraft) << policy;
    EXPECT_TRUE(grown.drafted) << policy;
    EXPECT_EQ(AcceptCopy(grown.tree).path.size(),
              static_cast<size_t>(grown.tree.depth(NodeIndex::Of(grown.tree.nodes()))))
        << policy;
  }
}

TEST_F(NamedRequestTest, SiblingsOfTheSpineGetDifferentChildren) {
  // The draft is 40 or 2, then 41 or 42. In the prompt, 3 always follows 2.
  marginals_ = testing::MarginalsOf({{0.6, 0.4}, {0.5, 0.5}});
  marginals_.tokens = {40, 2, 41, 42};
  const GrownTree grown = Grow(*PriorRequest("fixed:8+prior:request"), 1, marginals_);
  std::map<TokenId, TokenId> best_child;  // By the token of the node at depth 1.
  for (NodeIndex i = 1; i < grown.tree.rows(); ++i) {
    if (grown.tree.depth(i) == 2) {
      best_child.emplace(grown.tree.token(grown.tree.parent(i)), grown.tree.token(i));
    }
  }
  EXPECT_EQ(best_child[2], 3);
  EXPECT_NE(best_child[40], 3);
}

TEST_F(NamedRequestTest, AFixedBudgetCanUseManyChildrenOfOneNode) {
  marginals_ = testing::MarginalsOf({std::vector<double>(64, 1.0 / 64)});
  const auto coupled = Policy::Parse("fixed:60+coupled")->NewRequest(false, &costs_, &memory_);
  EXPECT_EQ(Grow(*coupled, kRoot, marginals_).tree.nodes(), 60);
}

TEST_F(NamedRequestTest, WithoutAVocabularyThePriorHasNoEffect) {
  EXPECT_EQ(Grow("fixed:16+prior").tree, Grow("fixed:16").tree);
}

TEST(BudgetReasonTest, EveryReasonHasAName) {
  EXPECT_EQ(BudgetReasonName(BudgetReason::kPolicy), "policy");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kCost), "cost");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kConfidence), "confidence");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kRequestLimit), "request_limit");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kServerLimit), "server_limit");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kRows), "rows");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kShare), "share");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kLength), "length");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kExploration), "exploration");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kExhausted), "exhausted");
  EXPECT_EQ(BudgetReasonName(BudgetReason::kNoDraft), "no_draft");
}

}  // namespace
}  // namespace bastion
