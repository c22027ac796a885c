#include "orchestrator/prior/weighted_candidates.h"

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "orchestrator/tree/best_first.h"
#include "orchestrator/tree/chain.h"
#include "tests/support/borrow.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

using ::bastion::testing::EdgeCase;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::RandomMarginals;
using ::bastion::testing::TableOf;

constexpr TokenId kRoot = 7;
constexpr int kLargeVocabulary = 2000;

double MassOf(const CandidateList& list) {
  double mass = 0;
  for (int rank = 0; rank < list.size; ++rank) mass += std::exp(list.log_scores[rank]);
  return mass;
}

void ExpectValid(const CandidateList& list) {
  std::set<TokenId> seen;
  for (int rank = 0; rank < list.size; ++rank) {
    EXPECT_TRUE(seen.insert(list.tokens[rank]).second) << "token " << list.tokens[rank];
    EXPECT_LE(list.log_scores[rank], 0);
    EXPECT_FALSE(std::isnan(list.log_scores[rank]));
    EXPECT_LE(list.log_scores[rank], list.log_scores[std::max(rank - 1, 0)]);
  }
}

class WeightedCandidatesTest : public ::testing::Test {
 protected:
  TransitionPrior PriorOver(const TransitionTable& table) {
    gains_ = std::make_unique<TransitionGains>(table);
    TransitionPrior prior({.vocabulary = kLargeVocabulary, .table = gains_.get()});
    prior.Append(kRoot);
    return prior;
  }

  const DraftTree root_{kRoot};
  std::unique_ptr<TransitionGains> gains_;
  CandidateWeights weights_ = CandidateWeights::ForDrafts();
};

TEST_F(WeightedCandidatesTest, EqualTheDraftCandidatesWithoutAPrior) {
  std::mt19937 random(1);
  for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
    const Marginals marginals = RandomMarginals(random, 5, 32, edge_case);
    CycleDraft draft(marginals);
    WeightedCandidates candidates(draft, 5, nullptr, &weights_);
    const DraftTree expected =
        GrowBestFirst(kRoot, testing::Borrow(DraftCandidates(marginals)), 40);
    const DraftTree tree = GrowBestFirst(kRoot, candidates, 40);
    EXPECT_EQ(tree.tokens(), expected.tokens());
    EXPECT_EQ(tree.parents(), expected.parents());
    for (NodeIndex i = 0; i < tree.rows(); ++i) {
      EXPECT_NEAR(tree.log_score(i), expected.log_score(i), 1e-5);
    }
  }
}

TEST_F(WeightedCandidatesTest, SiblingsHaveDifferentChildren) {
  // 101 follows 0 and 100 follows 1. The drafter gives both the same probability.
  const TransitionTable table = TableOf(kLargeVocabulary, {{0, {{101, 50}}}, {1, {{100, 50}}}});
  const TransitionPrior prior = PriorOver(table);
  const Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.45, 0.45}});
  CycleDraft draft(marginals);
  WeightedCandidates candidates(draft, 2, &prior, &weights_);
  DraftTree tree(kRoot);
  const NodeIndex zero = tree.Add(0, 0, -1), one = tree.Add(0, 1, -1);
  EXPECT_EQ(candidates.After(tree, zero).tokens[0], 101);
  EXPECT_EQ(candidates.After(tree, one).tokens[0], 100);
  EXPECT_GT(std::exp(candidates.After(tree, one).log_scores[0]), 0.8);
}

TEST_F(WeightedCandidatesTest, ThePriorPreservesTheTotalMass) {
  std::mt19937 random(2);
  const TransitionTable table = testing::RandomTable(kLargeVocabulary, 12, 3);
  const TransitionPrior prior = PriorOver(table);
  for (int draw = 0; draw < 50; ++draw) {
    const Marginals marginals = RandomMarginals(random, 3, 16, EdgeCase::kZeroTails);
    CycleDraft draft(marginals);
    WeightedCandidates candidates(draft, 3, &prior, &weights_);
    const CandidateList list = candidates.After(root_, 0);
    ExpectValid(list);
    const double before = MassOf(DraftCandidates(marginals).After(root_, 0));
    EXPECT_NEAR(MassOf(list), before, 1e-5);
  }
}

TEST_F(WeightedCandidatesTest, ScoresMatchAHandComputation) {
  const TransitionTable table = TableOf(kLargeVocabulary, {{kRoot, {{1, 10}, {900, 30}}}});
  const TransitionPrior prior = PriorOver(table);
  const Marginals marginals = MarginalsOf({{0.6, 0.2, 0.1}});
  CycleDraft draft(marginals);
  WeightedCandidates candidates(draft, 1, &prior, &weights_);
  const CandidateList list = candidates.After(root_, 0);
  ASSERT_EQ(list.size, 4);  // Only the prior proposes 900.
  const CandidateTerms& w = weights_.At(1);
  const double weight = w[kFirstGainTerm];
  const double gain_1 = std::log(1 + 10 * kLargeVocabulary / 20.0);
  const double gain_900 = std::log(1 + 30 * kLargeVocabulary / 20.0);
  const double mass_1 = 0.2 * std::exp(weight * gain_1);
  const double mass_900 = 0.1 * std::exp(w[kOutsideTerm] + weight * gain_900);
  const double sum = 0.6 + mass_1 + 0.1 + mass_900;
  for (int rank = 0; rank < list.size; ++rank) {
    const double mass = list.tokens[rank] == 0   ? 0.6
                        : list.tokens[rank] == 1 ? mass_1
                        : list.tokens[rank] == 2 ? 0.1
                                                 : mass_900;
    EXPECT_NEAR(std::exp(list.log_scores[rank]), 0.9 * mass / sum, 1e-5) << list.tokens[rank];
  }
}

TEST_F(WeightedCandidatesTest, APositionWithoutCandidatesEndsThePath) {
  const TransitionTable table = TableOf(kLargeVocabulary, {{kRoot, {{1, 10}}}, {0, {{5, 10}}}});
  const TransitionPrior prior = PriorOver(table);
  const Marginals marginals = MarginalsOf({{0.6, 0.4}, {0.0, 0.0}, {0.5, 0.5}});
  CycleDraft draft(marginals);
  WeightedCandidates candidates(draft, 3, &prior, &weights_);
  EXPECT_EQ(GrowChain(kRoot, candidates, 3).nodes(), 1);
  EXPECT_EQ(WeightedCandidates(draft, 0, &prior, &weights_).After(root_, 0).size, 0);
}

TEST_F(WeightedCandidatesTest, ListsOnlyTheBestCandidates) {
  std::mt19937 random(4);
  const TransitionTable table = testing::RandomTable(kLargeVocabulary, 16, 3);
  const TransitionPrior prior = PriorOver(table);
  const Marginals marginals = RandomMarginals(random, 2, 1000);
  CycleDraft draft(marginals);
  WeightedCandidates candidates(draft, 2, &prior, &weights_);
  EXPECT_EQ(candidates.After(root_, 0).size, 32);
  EXPECT_EQ(WeightedCandidates(draft, 2, &prior, &weights_, 200).After(root_, 0).size, 200);
  ExpectValid(candidates.After(root_, 0));
  const DraftTree tree = GrowBestFirst(kRoot, candidates, 500);
  EXPECT_EQ(tree.nodes(), 500);
  EXPECT_TRUE(tree.Validate(kLargeVocabulary).ok()) << tree.Validate(kLargeVocabulary);
}

// Updates weights with a drafter that predicts the first token well, but does not know how the
// second token depends on the first.
class UpdateWeightsTest : public WeightedCandidatesTest {
 protected:
  // The table's weight at depth 2 after `cycles` cycles. The second token of the text follows the
  // table if `table_is_right`, else the drafter's probabilities.
  float WeightAfter(const TransitionTable& table, bool table_is_right, int cycles) {
    std::mt19937 random(5);
    const TransitionPrior prior = PriorOver(table);
    for (int cycle = 0; cycle < cycles; ++cycle) {
      const Marginals marginals = RandomMarginals(random, 2, 24, EdgeCase::kNone, 4.0);
      const auto first = marginals.token(0, static_cast<int>(random() % 3));
      const Continuations next = table.After(first);
      std::discrete_distribution<> continuation(next.counts.begin(), next.counts.end());
      std::vector<double> masses;
      for (int rank = 0; rank < 24; ++rank) masses.push_back(std::exp(marginals.log_prob(1, rank)));
      std::discrete_distribution<> rank(masses.begin(), masses.end());
      const TokenId chosen[] = {first, table_is_right ? next.tokens[continuation(random)]
                                                      : marginals.token(1, rank(random))};
      WeightedCandidates::UpdateWeights(CycleDraft(marginals), &prior, chosen, &weights_);
    }
    return weights_.At(2)[kFirstGainTerm];
  }
};

TEST_F(UpdateWeightsTest, TheWeightOfACorrectTableRises) {
  EXPECT_GT(WeightAfter(testing::RandomTable(kLargeVocabulary, 6, 11), true, 400), 0.6);
}

TEST_F(UpdateWeightsTest, TheWeightOfARandomTableFallsToZero) {
  // The table lists the drafter's candidates at random.
  std::mt19937 random(9);
  std::map<TokenId, testing::Counted> singles;
  for (TokenId token = 0; token < 24; ++token) {
    const auto first = static_cast<TokenId>(100 + random() % 18);
    for (TokenId next = first; next < first + 6; ++next) singles[token].push_back({next, 50});
  }
  EXPECT_LT(WeightAfter(TableOf(kLargeVocabulary, singles), false, 400), 0.05);
}

TEST_F(UpdateWeightsTest, AChosenTokenThatIsNotACandidateChangesNothing) {
  const TransitionTable table = testing::RandomTable(kLargeVocabulary, 6, 11);
  const TransitionPrior prior = PriorOver(table);
  std::mt19937 random(6);
  for (int cycle = 0; cycle < 100; ++cycle) {
    const Marginals marginals = RandomMarginals(random, 2, 24, EdgeCase::kNone, 4.0);
    WeightedCandidates::UpdateWeights(CycleDraft(marginals), &prior, {kLargeVocabulary + 1},
                                      &weights_);
  }
  EXPECT_EQ(weights_.At(1), CandidateWeights::ForDrafts().At(1));
}

TEST_F(WeightedCandidatesTest, ExtremeScoresStayFinite) {
  Marginals marginals = MarginalsOf({{0.5, 0.5}, {0.5, 0.5}});
  for (float& log_prob : marginals.log_probs) log_prob = -1e38f;
  std::map<TokenId, testing::Counted> singles;
  singles[kRoot] = {{0, 65000}, {900, 300}};
  const TransitionPrior prior = PriorOver(TableOf(kLargeVocabulary, singles));
  for (int cycle = 0; cycle < 50; ++cycle) {
    WeightedCandidates::UpdateWeights(CycleDraft(marginals), &prior, {cycle % 2 ? 0 : 900},
                                      &weights_);
  }
  CycleDraft draft(marginals);
  WeightedCandidates candidates(draft, 2, &prior, &weights_);
  ExpectValid(candidates.After(root_, 0));
  EXPECT_TRUE(std::isfinite(candidates.After(root_, 0).log_scores[0]));
}

TEST(PriorCandidatesTest, ScoresAreTheInterpolatedProbabilities) {
  const TransitionGains table(TableOf(10, {{7, {{1, 30}, {2, 10}}}}));
  TransitionPrior prior({.vocabulary = 10, .table = &table});
  prior.Append(7);
  const CandidateWeights weights = CandidateWeights::ForPriorAlone();
  PriorCandidates candidates(4, &prior, &weights);
  const CandidateList list = candidates.After(DraftTree(7), 0);
  ASSERT_EQ(list.size, 2);
  EXPECT_EQ(list.tokens[0], 1);
  EXPECT_NEAR(std::exp(list.log_scores[0]), (30 + 2.0) / 60, 1e-5);
  EXPECT_NEAR(std::exp(list.log_scores[1]), (10 + 2.0) / 60, 1e-5);
}

TEST(PriorCandidatesTest, ARepeatedPhraseIsCopied) {
  TransitionPrior prior({.vocabulary = 100});
  for (const TokenId token : {1, 2, 3, 4, 5, 6, 50, 1, 2, 3}) prior.Append(token);
  const CandidateWeights weights = CandidateWeights::ForPriorAlone();
  const DraftTree chain = GrowChain(3, testing::Borrow(PriorCandidates(16, &prior, &weights)), 4);
  EXPECT_EQ(chain.tokens(), (std::vector<TokenId>{3, 4, 5, 6, 50}));
  EXPECT_GT(chain.ExpectedCommittedLength(), 3);
}

TEST(PriorCandidatesTest, AnUnknownContextHasNoChildren) {
  TransitionPrior prior({.vocabulary = 100});
  prior.Append(1);
  const CandidateWeights weights = CandidateWeights::ForPriorAlone();
  EXPECT_EQ(GrowBestFirst(1, testing::Borrow(PriorCandidates(16, &prior, &weights)), 8).nodes(), 0);
  EXPECT_EQ(PriorCandidates(0, &prior, &weights).After(DraftTree(1), 0).size, 0);
}

TEST(PriorCandidatesTest, ARandomTableLosesItsMass) {
  const TransitionGains random_gains(testing::RandomTable(kLargeVocabulary, 6, 12));
  CandidateWeights weights = CandidateWeights::ForPriorAlone();
  TransitionPrior prior({.vocabulary = kLargeVocabulary, .table = &random_gains, .request = false});
  prior.Append(3);
  PriorCandidates candidates(4, &prior, &weights);
  const double before = MassOf(candidates.After(DraftTree(3), 0));
  for (TokenId token = 0; token < 400; ++token)
    PriorCandidates::UpdateWeights(prior, {token}, &weights);
  EXPECT_GT(before, 0.5);
  EXPECT_LT(MassOf(PriorCandidates(4, &prior, &weights).After(DraftTree(3), 0)), 0.05);
}

TEST_F(WeightedCandidatesTest, ListsKeepTheirBucketAndTheirBlock) {
  CycleDraft draft;
  draft.set_expands_nodes(true);
  std::mt19937 random(1);
  Marginals block = testing::RandomMarginals(random, 2, 4);
  block.buckets = {2, 3};
  draft.Add({}, block);
  block.buckets = {1, 0};
  draft.Add(TreePath{0}, block);
  WeightedCandidates candidates(draft, 8, nullptr, &weights_);
  DraftTree tree(7);
  tree.Add(0, 0, -1);
  tree.Add(0, 1, -1);
  for (int call = 0; call < 2; ++call) {  // The second one is cached.
    EXPECT_EQ(candidates.After(tree, 0).bucket, 2);
    EXPECT_EQ(candidates.After(tree, 1).bucket, 1);
    EXPECT_EQ(candidates.InBlock(tree, 0, 1).bucket, 3);
    EXPECT_EQ(candidates.InBlock(tree, 1, 1).bucket, 1);
  }
  EXPECT_EQ(candidates.InBlock(tree, 2, 2).size, 0);
  EXPECT_EQ(draft.TakeMissing(), std::vector<TreePath>{TreePath{1}});
}

}  // namespace
}  // namespace bastion
