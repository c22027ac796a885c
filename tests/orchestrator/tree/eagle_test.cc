#include "orchestrator/tree/eagle.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/borrow.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::Borrow;
using ::bastion::testing::EdgeCase;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TokenId kEagleRoot = 50;

// A drafter as a function: the marginals after a path, at one position. Empty: no candidates.
using Oracle = std::function<Marginals(const TreePath&)>;

// The marginals of a node depend on its path alone, in no order.
Oracle OracleOf(uint32_t seed, int candidates, EdgeCase edge_case, double sharpness) {
  return [=](const TreePath& path) {
    std::seed_seq seeds(path.begin(), path.end());
    std::vector<uint32_t> mixed(1);
    seeds.generate(mixed.begin(), mixed.end());
    std::mt19937 random(mixed[0] ^ seed * 2654435761u);
    return RandomMarginals(random, 1, candidates, edge_case, sharpness);
  };
}

// A block drafter: all nodes of a depth share a position.
Oracle BlockOracle(const Marginals& block) {
  return [&block](const TreePath& path) {
    const size_t begin = path.size() * block.candidates, end = begin + block.candidates;
    Marginals marginals;
    if (end > block.tokens.size()) return marginals;
    marginals.positions = 1;
    marginals.candidates = block.candidates;
    marginals.tokens.assign(block.tokens.begin() + begin, block.tokens.begin() + end);
    marginals.log_probs.assign(block.log_probs.begin() + begin, block.log_probs.begin() + end);
    return marginals;
  };
}

struct PathScore {
  TreePath path;
  double score;

  friend bool operator==(const PathScore&, const PathScore&) = default;
};

void SortBestFirst(std::vector<PathScore>& paths) {
  std::stable_sort(paths.begin(), paths.end(),
                   [](const PathScore& a, const PathScore& b) { return a.score > b.score; });
}

double ScoreOf(const TreePath& path, const Oracle& oracle) {
  double score = 0;
  for (size_t length = 0; length < path.size(); ++length) {
    const Marginals marginals = oracle({path.begin(), path.begin() + length});
    const auto token = std::find(marginals.tokens.begin(), marginals.tokens.end(), path[length]);
    score += double{marginals.log_probs[token - marginals.tokens.begin()]};
  }
  return score;
}

// The nodes that `round` adds to the pool, in order. All rounds before it are computed again, and
// all scores from the root.
std::vector<PathScore> LevelOf(int round, int width, const Oracle& oracle) {
  std::vector<PathScore> beam = {{{}, 0}};
  if (round > 0) beam = LevelOf(round - 1, width, oracle);
  SortBestFirst(beam);
  std::vector<PathScore> level;
  for (int i = 0; i < std::min<int>(width, beam.size()); ++i) {
    const Marginals marginals = oracle(beam[i].path);
    for (int rank = 0; rank < std::min(width, marginals.candidates); ++rank) {
      PathScore child = {beam[i].path, 0};
      child.path.push_back(marginals.tokens[rank]);
      child.score = ScoreOf(child.path, oracle);
      if (!std::isinf(child.score)) level.push_back(child);
    }
  }
  return level;
}

// A second implementation of the definition. It shares no code with orchestrator/tree.
std::vector<PathScore> NaiveEagle(const EagleShape& shape, const Oracle& oracle) {
  std::vector<PathScore> pool;
  for (int round = 0; round <= shape.depth; ++round) {
    const std::vector<PathScore> level = LevelOf(round, shape.width, oracle);
    pool.insert(pool.end(), level.begin(), level.end());
  }
  std::vector<PathScore> best = pool;
  SortBestFirst(best);
  if (static_cast<int>(best.size()) > shape.nodes - 1) best.resize(shape.nodes - 1);
  std::set<TreePath> kept;
  for (const PathScore& one : best) kept.insert(one.path);
  std::erase_if(pool, [&kept](const PathScore& one) { return !kept.contains(one.path); });
  return pool;
}

// The nodes of `tree` without the root, in order. Scores are those of the tree, as floats.
std::vector<PathScore> NodesOf(const DraftTree& tree) {
  std::vector<PathScore> nodes;
  for (NodeIndex node = 1; node < tree.rows(); ++node) {
    nodes.push_back({PathOf(tree, node), tree.log_score(node)});
  }
  return nodes;
}

std::vector<PathScore> Rounded(std::vector<PathScore> nodes) {
  for (PathScore& node : nodes) node.score = static_cast<float>(node.score);
  return nodes;
}

// Grows the tree in rounds: the nodes that were asked for in vain are expanded in the next one.
DraftTree GrowInRounds(const EagleShape& shape, const Oracle& oracle, std::vector<int>* expanded,
                       int max_nodes = std::numeric_limits<int>::max()) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  for (;;) {
    DraftTree tree = GrowEagle(kEagleRoot, Borrow(DraftCandidates(draft)), shape, max_nodes);
    const std::vector<TreePath> missing = draft.TakeMissing();
    if (missing.empty()) return tree;
    expanded->push_back(static_cast<int>(missing.size()));
    for (const TreePath& path : missing) draft.Add(path, oracle(path));
  }
}

TEST(EagleTest, KeepsTheBestNodesOfThePoolInItsOrder) {
  // Level 1: a .6, b .3. Level 2: ax .36, ay .18, bx .18, by .09. The beam is ax and then ay, which
  // comes before bx. Level 3: axx .324, axy .036, ayx .162, ayy .018.
  const Marginals marginals = MarginalsOf({{0.6, 0.3}, {0.6, 0.3}, {0.9, 0.1}});
  DraftCandidates candidates(marginals);
  const DraftTree tree = GrowEagle(kEagleRoot, candidates, {.width = 2, .depth = 2, .nodes = 8});
  EXPECT_THAT(tree.tokens(), ElementsAre(kEagleRoot, 0, 1, 100, 101, 100, 200, 200));
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 0, 1, 1, 2, 3, 4}));
  // The three best nodes are a, ax and axx.
  EXPECT_THAT(GrowEagle(kEagleRoot, candidates, {.width = 2, .depth = 2, .nodes = 4}).tokens(),
              ElementsAre(kEagleRoot, 0, 100, 200));
}

TEST(EagleTest, OfEqualNodesTheFirstOnesOfThePoolAreKept) {
  const Marginals marginals = MarginalsOf({{0.5, 0.5}, {0.5, 0.5}, {0.5, 0.5}});
  DraftCandidates candidates(marginals);
  const DraftTree tree = GrowEagle(kEagleRoot, candidates, {.width = 2, .depth = 2, .nodes = 9});
  EXPECT_THAT(tree.tokens(), ElementsAre(kEagleRoot, 0, 1, 100, 101, 100, 101, 200, 201));
  // The beam of the last round is the children of the first node.
  EXPECT_EQ(tree.parents(), (std::vector<NodeIndex>{kNoNode, 0, 0, 1, 1, 2, 2, 3, 3}));
}

TEST(EagleTest, TheDefaultPoolHasSevenHundredAndTenNodes) {
  std::mt19937 random(1);
  const Marginals marginals = RandomMarginals(random, 15, 32);
  DraftCandidates candidates(marginals);
  const DraftTree pool = GrowEagle(kEagleRoot, candidates, {.nodes = 4096});
  EXPECT_EQ(pool.nodes(), 10 + 7 * 100);
  EXPECT_EQ(pool.depth(NodeIndex::Of(pool.nodes())), 8);
  EXPECT_EQ(GrowEagle(kEagleRoot, candidates, EagleShape()).rows(), 60);
}

TEST(EagleTest, EqualsANaiveImplementationWithABlockDrafter) {
  std::mt19937 random(2);
  for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
    for (int draw = 0; draw < 300; ++draw) {
      const auto roll = [&random](int lowest, int highest) {
        return std::uniform_int_distribution<>(lowest, highest)(random);
      };
      const Marginals marginals =
          RandomMarginals(random, roll(1, 6), roll(1, 6), edge_case, roll(1, 8));
      const EagleShape shape = {.width = roll(1, 6), .depth = roll(0, 5), .nodes = roll(1, 60)};
      const DraftTree tree = GrowEagle(kEagleRoot, Borrow(DraftCandidates(marginals)), shape);
      ASSERT_EQ(NodesOf(tree), Rounded(NaiveEagle(shape, BlockOracle(marginals))))
          << draw << ": " << shape.width << "," << shape.depth << "," << shape.nodes;
      ASSERT_TRUE(tree.Validate(1000).ok()) << draw;
    }
  }
}

TEST(EagleTest, EqualsANaiveImplementationWithADrafterThatExpandsNodes) {
  std::mt19937 random(3);
  for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
    for (uint32_t seed = 0; seed < 150; ++seed) {
      const auto roll = [&random](int lowest, int highest) {
        return std::uniform_int_distribution<>(lowest, highest)(random);
      };
      const Oracle oracle = OracleOf(seed, roll(1, 8), edge_case, roll(1, 10));
      const EagleShape shape = {.width = roll(1, 7), .depth = roll(0, 4), .nodes = roll(1, 70)};
      std::vector<int> expanded;
      const DraftTree tree = GrowInRounds(shape, oracle, &expanded);
      ASSERT_EQ(NodesOf(tree), Rounded(NaiveEagle(shape, oracle)))
          << seed << ": " << shape.width << "," << shape.depth << "," << shape.nodes;
      EXPECT_LE(static_cast<int>(expanded.size()), shape.depth + 1);
      // A lower limit keeps the best nodes.
      const int limit = roll(0, 20);
      const EagleShape limited = {shape.width, shape.depth, std::min(shape.nodes, limit + 1)};
      EXPECT_EQ(NodesOf(GrowInRounds(shape, oracle, &expanded, limit)),
                Rounded(NaiveEagle(limited, oracle)));
    }
  }
}

TEST(EagleTest, EveryRoundExpandsTheBeam) {
  const Oracle oracle = OracleOf(1, 16, EdgeCase::kNone, 4);
  std::vector<int> expanded;
  EXPECT_EQ(GrowInRounds(EagleShape(), oracle, &expanded).rows(), 60);
  EXPECT_THAT(expanded, ElementsAre(1, 10, 10, 10, 10, 10, 10, 10));
  // A beam has no more nodes than the tree.
  expanded.clear();
  EXPECT_EQ(GrowInRounds(EagleShape(), oracle, &expanded, 3).nodes(), 3);
  EXPECT_THAT(expanded, ElementsAre(1, 3, 3, 3, 3, 3, 3, 3));
  expanded.clear();
  EXPECT_EQ(GrowInRounds(EagleShape(), oracle, &expanded, 0).nodes(), 0);
  EXPECT_THAT(expanded, IsEmpty());
}

TEST(EagleTest, WidthOneIsAChain) {
  std::mt19937 random(4);
  const Marginals marginals = RandomMarginals(random, 15, 4);
  DraftCandidates candidates(marginals);
  const DraftTree tree = GrowEagle(kEagleRoot, candidates, {.width = 1, .depth = 7, .nodes = 8});
  EXPECT_TRUE(tree.IsChain());
  EXPECT_EQ(tree.nodes(), 7);
  // Without a limit on nodes, the rounds end it.
  EXPECT_EQ(GrowEagle(kEagleRoot, candidates, {.width = 1, .depth = 7, .nodes = 60}).nodes(), 8);
}

TEST(EagleTest, DepthIsLimitedByThePositions) {
  std::mt19937 random(5);
  const Marginals marginals = RandomMarginals(random, 3, 10);
  EXPECT_EQ(GrowEagle(kEagleRoot, Borrow(DraftCandidates(marginals)), {.nodes = 4096}).nodes(),
            10 + 2 * 100);
  EXPECT_EQ(GrowEagle(kEagleRoot, Borrow(DraftCandidates(marginals, 1)), EagleShape()).nodes(), 10);
  EXPECT_EQ(GrowEagle(kEagleRoot, Borrow(DraftCandidates(marginals, 0)), EagleShape()),
            DraftTree(kEagleRoot));
}

TEST(EagleTest, EmptyMarginalsGiveTheRootAlone) {
  const Marginals marginals;
  EXPECT_EQ(GrowEagle(kEagleRoot, Borrow(DraftCandidates(marginals)), EagleShape()),
            DraftTree(kEagleRoot));
}

TEST(EagleTest, WidthZeroFailsACheck) {
  const Marginals marginals;
  EXPECT_DEATH((void)GrowEagle(kEagleRoot, Borrow(DraftCandidates(marginals)), {.width = 0}),
               "width");
}

}  // namespace
}  // namespace bastion
