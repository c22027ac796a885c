#include "orchestrator/policy/adaptive_request.h"

#include <cmath>
#include <numeric>

#include "orchestrator/tree/best_first.h"
#include "tests/orchestrator/policy/policy_fixture.h"
#include "tests/support/node_oracle.h"

namespace bastion {
namespace {

using AdaptiveRequestTest = PolicyFixture;

// The drafts that the next cycle expects, as expected accepted nodes. 0: it would not draft.
double ExpectedGain(RequestPolicy& request, TokenId root = kRoot) {
  static constexpr double kMinValue = 0.01;
  request.Begin(root, kWide, {&kMinValue, 1});
  const DraftRound* round = request.NextRound();
  return round == nullptr ? 0 : round->proposal.with.Sum();
}

TEST_F(AdaptiveRequestTest, OffersTheBestFirstTreeOfItsDraft) {
  const std::unique_ptr<RequestPolicy> request = Request("adaptive");
  EXPECT_TRUE(request->planned());
  request->Begin(kRoot, kWide, Flat(0.05));
  const DraftRound* round = request->NextRound();
  ASSERT_NE(round, nullptr);
  EXPECT_FALSE(round->required);
  request->AddDraft({marginals_});
  EXPECT_EQ(request->NextRound(), nullptr);
  const TreeProposal proposal = request->ProposeTree();
  const auto nodes = static_cast<int>(proposal.values.size());
  ASSERT_GT(nodes, 4);
  EXPECT_EQ(proposal.end, BudgetReason::kConfidence);
  EXPECT_EQ(proposal.certain, 0);
  for (int i = 1; i < nodes; ++i) EXPECT_LE(proposal.values[i], proposal.values[i - 1]);
  EXPECT_GE(proposal.values.back(), 0.05 * 0.999);
  const GrownTree grown = request->Finish(nodes, proposal.end);
  EXPECT_EQ(grown.tree, GrowBestFirst(kRoot, candidates_, nodes));
  EXPECT_TRUE(grown.drafted);
}

TEST_F(AdaptiveRequestTest, KeepsTheNodesThatThePlannerChose) {
  const std::unique_ptr<RequestPolicy> request = Request("adaptive");
  request->Begin(kRoot, kWide, Flat(0.01));
  ASSERT_NE(request->NextRound(), nullptr);
  request->AddDraft({marginals_});
  (void)request->ProposeTree();
  const GrownTree grown = request->Finish(3, BudgetReason::kCost);
  EXPECT_EQ(grown.tree, GrowBestFirst(kRoot, candidates_, 3));
  EXPECT_EQ(grown.reason, BudgetReason::kCost);
}

TEST_F(AdaptiveRequestTest, NeverExceedsTheLimits) {
  for (const char* policy : {"adaptive", "adaptive+coupled", "adaptive+prior", "default"}) {
    for (const int nodes : {0, 1, 3, 40}) {
      for (const int depth : {0, 1, 2, 15}) {
        const TreeLimits limits = {100, nodes, depth};
        const GrownTree grown = Grow(*PriorRequest(policy), 1, marginals_, limits, 0.001);
        EXPECT_LE(grown.tree.nodes(), nodes) << policy;
        for (NodeIndex i = 0; i < grown.tree.rows(); ++i) {
          EXPECT_LE(grown.tree.depth(i), depth) << policy;
        }
        EXPECT_TRUE(grown.tree.Validate(100000).ok()) << policy;
      }
    }
  }
}

TEST_F(AdaptiveRequestTest, ReportsTheLimitOfTheRequest) {
  const TreeLimits limits = {100, 2, 15, BudgetReason::kRequestLimit};
  EXPECT_EQ(Grow("adaptive", limits).reason, BudgetReason::kRequestLimit);
  EXPECT_EQ(Grow("adaptive", {100, 0, 0, BudgetReason::kRequestLimit}).reason,
            BudgetReason::kRequestLimit);
}

TEST_F(AdaptiveRequestTest, OffersNothingWithoutDraftAndPrior) {
  const std::unique_ptr<RequestPolicy> request = Request("adaptive");
  const GrownTree grown = GrowWithoutDraft(*request, kRoot);
  EXPECT_EQ(grown.tree, DraftTree(kRoot));
  EXPECT_EQ(grown.reason, BudgetReason::kCost);
  EXPECT_FALSE(grown.drafted);
}

TEST_F(AdaptiveRequestTest, AnEmptyDraftLeadsToAPlainStepAndAPause) {
  const std::unique_ptr<RequestPolicy> request = Request("adaptive");
  int drafts = 0;
  constexpr int kCycles = 300;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    request->Begin(kRoot, kWide, Flat(0.01));
    const bool drafting = request->NextRound() != nullptr;
    if (drafting) request->AddDraft({Marginals()});
    const TreeProposal proposal = request->ProposeTree();
    const GrownTree grown = request->Finish(static_cast<int>(proposal.values.size()), proposal.end);
    EXPECT_EQ(grown.tree, DraftTree(kRoot));
    EXPECT_EQ(grown.reason, drafting ? BudgetReason::kNoDraft : BudgetReason::kCost);
    request->Observe(grown, {{}, kOther});
    drafts += drafting ? 1 : 0;
  }
  EXPECT_GE(drafts, 6);
  EXPECT_LE(drafts, 12);
  // One good draft ends the pauses.
  while (ExpectedGain(*request) == 0) {
  }
  request->AddDraft({marginals_});
  EXPECT_GT(ExpectedGain(*request), 0);
}

TEST_F(AdaptiveRequestTest, LearnsThatItsDraftsAreWrong) {
  const std::unique_ptr<RequestPolicy> first = Request("adaptive");
  const double before = ExpectedGain(*first);
  double offered = 0;
  for (int cycle = 0; cycle < 100; ++cycle) {
    const GrownTree grown = Grow(*first, kRoot, marginals_);
    offered = std::accumulate(grown.tree.tokens().begin() + 1, grown.tree.tokens().end(), 0.0,
                              [](double sum, TokenId) { return sum + 1; });
    first->Observe(grown, {{}, kOther});
  }
  EXPECT_LT(offered, 5);
  EXPECT_LT(ExpectedGain(*first), 0.3 * before);
  // New requests start from what others have learned; other modes do not.
  EXPECT_LT(ExpectedGain(*Request("adaptive")), 0.3 * before);
  EXPECT_GT(ExpectedGain(*Policy::Parse("adaptive")->NewRequest(false, &costs_, &memory_)),
            0.9 * before);
}

TEST_F(AdaptiveRequestTest, NamedPoliciesTeachItNothing) {
  const double before = ExpectedGain(*Request("adaptive"));
  for (const char* policy : {"ar", "chain", "fixed:48", "bastion"}) {
    const std::unique_ptr<RequestPolicy> request = Request(policy);
    for (int i = 0; i < 50; ++i) {
      const GrownTree grown = Grow(*request, kRoot, marginals_);
      request->Observe(grown, {{}, kOther});
    }
  }
  EXPECT_EQ(ExpectedGain(*Request("adaptive")), before);
}

TEST_F(AdaptiveRequestTest, ADraftFreeTreeCopiesTheText) {
  const std::unique_ptr<RequestPolicy> request = PriorRequest("adaptive+prior");
  TokenId root = 1;
  double tokens = 0;
  constexpr int kCycles = 100;
  for (int cycle = 0; cycle < kCycles; ++cycle) {
    const GrownTree grown = GrowWithoutDraft(*request, root);
    EXPECT_FALSE(grown.drafted);
    const Acceptance acceptance = AcceptCopy(grown.tree);
    request->Observe(grown, acceptance);
    root = acceptance.next;
    tokens += cycle >= 50 ? acceptance.committed_length() : 0;
  }
  EXPECT_GT(tokens / 50, 8);
}

TEST_F(AdaptiveRequestTest, ARepetitionExpectsLittleFromADraft) {
  const std::unique_ptr<RequestPolicy> request = PriorRequest("adaptive+prior");
  TokenId root = 1;
  for (int cycle = 0; cycle < 60; ++cycle) {
    const GrownTree grown =
        cycle % 4 == 0 ? Grow(*request, root, marginals_) : GrowWithoutDraft(*request, root);
    const Acceptance acceptance = AcceptCopy(grown.tree);
    request->Observe(grown, acceptance);
    root = acceptance.next;
  }
  request->Begin(root, kWide, Flat(0.01));
  const DraftRound* round = request->NextRound();
  ASSERT_NE(round, nullptr);
  EXPECT_GT(round->proposal.without.Sum(), 6);
  EXPECT_LT(round->proposal.with.Sum(), round->proposal.without.Sum() + 1);
}

TEST_F(AdaptiveRequestTest, AFailedDraftLeavesTheDraftFreeTree) {
  for (const char* policy : {"adaptive+prior", "default"}) {
    const GrownTree grown = Grow(*PriorRequest(policy), 1, Marginals());
    EXPECT_GE(grown.tree.nodes(), 3) << policy;
    EXPECT_EQ(grown.reason, BudgetReason::kNoDraft) << policy;
    EXPECT_TRUE(grown.drafted) << policy;
  }
}

TEST_F(AdaptiveRequestTest, APromptWithInvalidTokensIsHarmless) {
  const std::unique_ptr<RequestPolicy> request = PriorRequest("adaptive+prior");
  request->ObservePrompt({5, 1 << 30, -7, kVocabulary});
  EXPECT_GT(Grow(*request, kVocabulary, marginals_).tree.rows(), 1);
}

TEST_F(AdaptiveRequestTest, OffersMoreNodesTheMoreItsTokensCount) {
  std::vector<size_t> offered;
  for (const double weight : {0.5, 1.0, 2.0}) {
    const std::unique_ptr<RequestPolicy> request = Request("adaptive");
    request->set_weight(weight);
    request->Begin(kRoot, kWide, Flat(0.02));
    EXPECT_EQ(request->NextRound()->proposal.weight, weight);
    request->AddDraft({marginals_});
    const TreeProposal proposal = request->ProposeTree();
    EXPECT_EQ(proposal.weight, weight);
    offered.push_back(proposal.values.size());
  }
  EXPECT_LT(offered[0], offered[1]);
  EXPECT_LT(offered[1], offered[2]);
}

TEST_F(AdaptiveRequestTest, RequestsFewerCandidatesWhereNodesAreExpensive) {
  const std::unique_ptr<RequestPolicy> request = Request("adaptive");
  request->Begin(kRoot, kWide, Flat(0.5));
  EXPECT_EQ(request->NextRound()->candidates, 4);
  request->Begin(kRoot, kWide, Flat(0.001));
  EXPECT_EQ(request->NextRound()->candidates, kMaxUsefulCandidates);
  const std::unique_ptr<RequestPolicy> with_prior = PriorRequest("adaptive+prior");
  with_prior->Begin(1, kWide, Flat(0.5));
  EXPECT_EQ(with_prior->NextRound()->candidates, 32);
}

// ---- drafters that expand nodes in rounds ----

TEST_F(AdaptiveRequestTest, OffersFurtherRoundsForTheNodesWhoseChildrenCanPay) {
  const std::unique_ptr<RequestPolicy> request = Request("adaptive");
  const testing::NodeOracle oracle(1, 8, 6);
  request->Begin(kRoot, kWide, Flat(0.05));
  const DraftRound* round = request->NextRound();
  ASSERT_NE(round, nullptr);
  EXPECT_FALSE(round->further);
  int rounds = 0;
  for (; round != nullptr && rounds < 20; round = request->NextRound(), ++rounds) {
    EXPECT_EQ(round->further, rounds > 0);
    EXPECT_FALSE(round->required);
    EXPECT_FALSE(round->paths.empty());
    std::vector<Marginals> marginals;
    for (const TreePath& path : round->paths) marginals.push_back(oracle.At(path));
    const double price = 0.01;
    if (round->further) {
      EXPECT_GT(round->proposal.with.Surplus(price), round->proposal.without.Surplus(price));
    }
    request->AddDraft(std::move(marginals), /*expands_nodes=*/true);
  }
  EXPECT_GT(rounds, 2);
  EXPECT_LT(rounds, 20);
  const TreeProposal proposal = request->ProposeTree();
  // Every node is as valuable as it pays, and best first.
  for (size_t i = 0; i < proposal.values.size(); ++i) {
    EXPECT_GE(proposal.values[i], 0.05 * 0.999);
    EXPECT_LE(proposal.values[i], i > 0 ? proposal.values[i - 1] : 1.0);
  }
  const GrownTree grown = request->Finish(static_cast<int>(proposal.values.size()), proposal.end);
  CycleDraft full = oracle.Full(5);
  DraftCandidates candidates(full);
  EXPECT_EQ(grown.tree, GrowBestFirst(kRoot, candidates, grown.tree.nodes()));
  request->Observe(grown, {{}, kOther});
}

TEST_F(AdaptiveRequestTest, RoundsOfASpecBlockDrafterExpandWhatItsBlocksDoNotReach) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const std::unique_ptr<RequestPolicy> request = Request("adaptive");
    const testing::NodeOracle oracle(seed, 8, 12, 4);
    request->Begin(kRoot, kWide, Flat(0.02));
    int rounds = 0;
    for (const DraftRound* round = request->NextRound(); round != nullptr;
         round = request->NextRound(), ++rounds) {
      std::vector<Marginals> marginals;
      for (const TreePath& path : round->paths) {
        marginals.push_back(oracle.At(path));
        // The root's block reaches the best child of the root.
        EXPECT_NE(path, TreePath{oracle.At({}).token(0, 0)});
      }
      request->AddDraft(std::move(marginals), /*expands_nodes=*/true);
      ASSERT_LT(rounds, 20);
    }
    EXPECT_GT(rounds, 1);
    const TreeProposal proposal = request->ProposeTree();
    const GrownTree grown = request->Finish(static_cast<int>(proposal.values.size()), proposal.end);
    const std::vector<TreePath> expected = oracle.BestPaths(grown.tree.nodes());
    // The children of less valuable nodes may not pay.
    for (NodeIndex node = 1; node < grown.tree.rows(); ++node) {
      if (proposal.values[node - 1] < 0.1) break;
      EXPECT_EQ(PathOf(grown.tree, node), expected[node - 1]) << seed;
    }
  }
}

TEST_F(AdaptiveRequestTest, ARoundOfASpecBlockDrafterPromisesWholeBlocks) {
  // The same root, with and without further positions.
  const auto promised = [this](int positions) {
    const std::unique_ptr<RequestPolicy> request = Request("adaptive");
    request->Begin(kRoot, kWide, Flat(0.05));
    EXPECT_NE(request->NextRound(), nullptr);
    Marginals block = testing::MarginalsOf(testing::Ladder(positions, 4, 0.8));
    block.log_probs[0] = std::log(0.4f);
    block.log_probs[1] = std::log(0.3f);
    request->AddDraft({block}, /*expands_nodes=*/true);
    const DraftRound* round = request->NextRound();
    return round == nullptr ? 0 : round->proposal.with.Sum() - round->proposal.without.Sum();
  };
  EXPECT_GT(promised(4), 1.2 * promised(1));
}

TEST_F(AdaptiveRequestTest, ABlockDrafterServesOneRound) {
  const std::unique_ptr<RequestPolicy> request = Request("adaptive");
  request->Begin(kRoot, kWide, Flat(0.01));
  ASSERT_NE(request->NextRound(), nullptr);
  request->AddDraft({marginals_});
  EXPECT_EQ(request->NextRound(), nullptr);
}

}  // namespace
}  // namespace bastion
