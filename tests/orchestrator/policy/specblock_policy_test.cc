#include "orchestrator/policy/specblock_policy.h"

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "tests/orchestrator/policy/policy_fixture.h"
#include "tests/support/node_oracle.h"

namespace bastion {
namespace {

using SpecBlockPolicyTest = PolicyFixture;

SpecBlockShape SpecBlockShapeOf(std::optional<std::string_view> argument) {
  const std::unique_ptr<const PolicyKind> policy = SpecBlockPolicy::Parse(argument);
  EXPECT_NE(policy, nullptr) << argument.value_or("no argument");
  return policy == nullptr ? SpecBlockShape()
                           : dynamic_cast<const SpecBlockPolicy&>(*policy).shape();
}

TEST_F(SpecBlockPolicyTest, DefaultsAreTheAuthors) {
  const SpecBlockShape shape = SpecBlockShapeOf(std::nullopt);
  EXPECT_EQ(shape.map, (std::array<int, 4>{2, 4, 10, 0}));
  EXPECT_EQ(shape.nodes, 60);
  EXPECT_EQ(shape.blocks, 2);
  EXPECT_EQ(shape.starts, 10);
  EXPECT_FALSE(shape.literal);
  EXPECT_EQ(shape.uniform, 0);
  EXPECT_EQ(SpecBlockShapeOf("literal").starts, 8);
  EXPECT_TRUE(SpecBlockShapeOf("literal").literal);
}

TEST_F(SpecBlockPolicyTest, OptionsChangeTheShape) {
  const SpecBlockShape shape = SpecBlockShapeOf("map=2-4-6-4,n=90,m=3,starts=4,uniform=5");
  EXPECT_EQ(shape.map, (std::array<int, 4>{2, 4, 6, 4}));
  EXPECT_EQ(shape.nodes, 90);
  EXPECT_EQ(shape.blocks, 3);
  EXPECT_EQ(shape.starts, 4);
  EXPECT_EQ(shape.uniform, 5);
  EXPECT_EQ(SpecBlockShapeOf("literal,n=30,starts=2").starts, 2);
  EXPECT_TRUE(SpecBlockShapeOf("literal,any=1").any_bucket);
  EXPECT_EQ(SpecBlockShapeOf("map=0-0-0-0").map, (std::array<int, 4>{0, 0, 0, 0}));
}

TEST_F(SpecBlockPolicyTest, RefusesOptionsThatItDoesNotKnow) {
  for (const char* argument : {"",
                               "paper",
                               "map",
                               "map=",
                               "map=2",
                               "map=2-4-10",
                               "map=2-4-10-0-1",
                               "map=2-4-10-x",
                               "map=2-4-65-0",
                               "map=2--4-0",
                               "map=-1-4-10-0",
                               "n=0",
                               "n=4097",
                               "n=x",
                               "m=0",
                               "m=17",
                               "m=1.5",
                               "starts=0",
                               "uniform=0",
                               "uniform=65",
                               "any=1",
                               "literal,any=2",
                               "n=3,n=4",
                               "n=3,literal",
                               "width=3"}) {
    EXPECT_EQ(SpecBlockPolicy::Parse(argument), nullptr) << argument;
  }
}

TEST_F(SpecBlockPolicyTest, AsksForAsManyCandidatesAsAWidthCanBe) {
  EXPECT_EQ(Policy::Parse("specblock")->CandidatesFor(127), 10);
  EXPECT_EQ(Policy::Parse("specblock")->CandidatesFor(4), 4);
  EXPECT_EQ(Policy::Parse("specblock:n=3")->CandidatesFor(127), 3);
  EXPECT_EQ(Policy::Parse("specblock:map=2-20-4-0")->CandidatesFor(127), 20);
  EXPECT_EQ(Policy::Parse("specblock:uniform=3")->CandidatesFor(127), 3);
  EXPECT_EQ(Policy::Parse("specblock:literal,map=2-4-6-4")->CandidatesFor(127), 6);
  EXPECT_EQ(Policy::Parse("specblock:literal,map=0-0-0-0")->CandidatesFor(127), 1);
}

TEST_F(SpecBlockPolicyTest, ALimitKeepsTheBestNodes) {
  for (const int nodes : {1, 2, 7, 20, 59, 60, 100}) {
    const GrownTree limited = Grow("specblock", {100, nodes, 15, BudgetReason::kRequestLimit});
    EXPECT_EQ(limited.tree, GrowSpecBlock(kRoot, candidates_, {.nodes = std::min(nodes, 60)}));
    EXPECT_EQ(limited.reason, nodes >= 60 ? BudgetReason::kPolicy : BudgetReason::kRequestLimit);
  }
}

// Grows the tree with a SpecBlock drafter.
GrownTree GrowBlocks(RequestPolicy& request, const testing::NodeOracle& oracle,
                     std::vector<int>* expanded, const TreeLimits& limits = {100, 127, 127}) {
  request.Begin(5000, limits, {});
  for (const DraftRound* round = request.NextRound(); round != nullptr;
       round = request.NextRound()) {
    expanded->push_back(static_cast<int>(round->paths.size()));
    std::vector<Marginals> marginals;
    for (const TreePath& path : round->paths) marginals.push_back(oracle.At(path));
    request.AddDraft(std::move(marginals), /*expands_nodes=*/true);
  }
  const TreeProposal proposal = request.ProposeTree();
  return request.Finish(0, proposal.end);
}

TEST_F(SpecBlockPolicyTest, DraftsOneRoundPerBlock) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const testing::NodeOracle oracle(seed, 12, 4, 4);
    for (const char* text : {"specblock", "specblock:m=3,n=100", "specblock:literal,m=3",
                             "specblock:m=1", "specblock:uniform=4"}) {
      std::vector<int> expanded;
      const auto request = Request(text);
      const GrownTree grown = GrowBlocks(*request, oracle, &expanded);
      const std::unique_ptr<const PolicyKind> kind =
          SpecBlockPolicy::Parse(std::string_view(text) == "specblock"
                                     ? std::nullopt
                                     : std::make_optional(std::string_view(text).substr(10)));
      const auto& shape = dynamic_cast<const SpecBlockPolicy&>(*kind).shape();
      ASSERT_LE(static_cast<int>(expanded.size()), shape.blocks) << text;
      CycleDraft draft;
      draft.set_expands_nodes(true);
      draft.Add({}, oracle.At({}));
      for (int block = 1; block < shape.blocks; ++block) {
        DraftCandidates candidates(draft);
        (void)GrowSpecBlock(5000, candidates, shape);
        for (const TreePath& path : draft.TakeMissing()) draft.Add(path, oracle.At(path));
      }
      DraftCandidates candidates(draft);
      EXPECT_EQ(grown.tree, GrowSpecBlock(5000, candidates, shape)) << text;
      EXPECT_TRUE(grown.drafted);
      EXPECT_EQ(grown.reason, BudgetReason::kPolicy);
    }
  }
}

TEST_F(SpecBlockPolicyTest, WorksWithEveryDrafterAndPrior) {
  for (const char* text : {"specblock", "specblock+prior", "specblock+coupled",
                           "specblock:literal+coupled+prior", "specblock:m=4,uniform=2+prior"}) {
    for (const int positions : {1, 4}) {
      const testing::NodeOracle oracle(1, 12, 4, positions);
      const auto request = PriorRequest(text);
      for (const TreeLimits& limits :
           {TreeLimits{100, 0, 15}, {100, 5, 0}, {100, 1, 3}, {100, 40, 2}, {100, 127, 15}}) {
        std::vector<int> expanded;
        const GrownTree grown = GrowBlocks(*request, oracle, &expanded, limits);
        EXPECT_LE(grown.tree.nodes(), limits.nodes) << text;
        for (NodeIndex i = 0; i < grown.tree.rows(); ++i) {
          EXPECT_LE(grown.tree.depth(i), limits.depth) << text;
        }
        EXPECT_EQ(grown.tree.nodes() > 0, limits.nodes > 0 && limits.depth > 0) << text;
        EXPECT_TRUE(grown.tree.Validate(10000).ok()) << text;
        request->Observe(grown, {{}, kOther});
      }
    }
    EXPECT_GT(Grow(*PriorRequest(text), 1, marginals_).tree.nodes(), 10) << text;
  }
}

}  // namespace
}  // namespace bastion
