// Pair scores as a term of learned weights (candidate_weights.h).
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/prior/weighted_candidates.h"
#include "orchestrator/tree/best_first.h"
#include "tests/support/borrow.h"
#include "tests/support/pair_reference.h"
#include "tests/support/random_marginals.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

using ::bastion::testing::AddPairScores;
using ::bastion::testing::EdgeCase;
using ::bastion::testing::MarginalsOf;
using ::bastion::testing::PairProbability;
using ::bastion::testing::RandomMarginals;
using ::bastion::testing::TableOf;

constexpr TokenId kPairRoot = 7;
constexpr int kPairVocabulary = 2000;

// The initial weights, but with these for the drafter's terms at all depths.
CandidateWeights WeightsOf(float draft, float pair) {
  std::vector<float> values = CandidateWeights::ForDrafts().ToValues();
  constexpr size_t kRow = 1 + kCandidateTerms;
  for (size_t cell = 0; cell < CandidateWeights::kMaxDepth; ++cell) {
    values[(cell * kCandidateTerms + kDraftTerm) * kRow] = draft;
    values[(cell * kCandidateTerms + kPairTerm) * kRow] = pair;
  }
  return *CandidateWeights::FromValues(values);
}

double ProbabilityOf(const CandidateList& list, TokenId token) {
  for (int rank = 0; rank < list.size; ++rank) {
    if (list.tokens[rank] == token) return std::exp(double{list.log_scores[rank]});
  }
  return 0;
}

Marginals PairedMarginals(std::mt19937& random, int positions, int candidates,
                          EdgeCase edge_case = EdgeCase::kNone) {
  Marginals marginals = RandomMarginals(random, positions, candidates, edge_case, 2);
  AddPairScores(random, 1.5, &marginals, edge_case);
  return marginals;
}

TEST(PairTermTest, TheInitialWeightsGiveTheRowsOfTheDraft) {
  std::mt19937 random(1);
  const CandidateWeights weights = CandidateWeights::ForDrafts();
  // A prior that has seen nothing changes nothing.
  TransitionPrior prior({.vocabulary = kPairVocabulary, .request = false});
  prior.Append(kPairRoot);
  for (const EdgeCase edge_case : {EdgeCase::kNone, EdgeCase::kTies, EdgeCase::kZeroTails}) {
    for (const TransitionPrior* known : {static_cast<const TransitionPrior*>(nullptr),
                                         static_cast<const TransitionPrior*>(&prior)}) {
      CycleDraft draft(PairedMarginals(random, 4, 6, edge_case));
      DraftCandidates plain(draft);
      const DraftTree tree = GrowBestFirst(kPairRoot, plain, 40);
      WeightedCandidates weighted(draft, 4, known, &weights);
      for (NodeIndex node = 0; node < tree.rows(); ++node) {
        const CandidateList expected = plain.After(tree, node);
        const CandidateList list = weighted.After(tree, node);
        for (int rank = 0; rank < expected.size; ++rank) {
          EXPECT_NEAR(ProbabilityOf(list, expected.tokens[rank]),
                      std::exp(double{expected.log_scores[rank]}), 1e-5);
        }
      }
    }
  }
}

TEST(PairTermTest, RowsMatchTheFormulaAtOtherWeights) {
  std::mt19937 random(2);
  const Marginals marginals = PairedMarginals(random, 2, 5);
  CycleDraft draft(marginals);
  const CandidateWeights weights = WeightsOf(0.7f, 1.6f);
  WeightedCandidates candidates(draft, 2, nullptr, &weights);
  DraftTree tree(kPairRoot);
  for (int rank = 0; rank < 5; ++rank) tree.Add(0, marginals.token(0, rank), -1);
  for (int rank = 0; rank < 5; ++rank) {
    EXPECT_NEAR(ProbabilityOf(candidates.After(tree, 0), marginals.token(0, rank)),
                PairProbability(marginals, 0, 0, rank, {0.7, 1.6}), 1e-5);
    for (int previous = 0; previous < 5; ++previous) {
      EXPECT_NEAR(ProbabilityOf(candidates.After(tree, NodeIndex::Of(previous + 1)),
                                marginals.token(1, rank)),
                  PairProbability(marginals, 1, previous, rank, {0.7, 1.6}), 1e-5);
    }
  }
}

TEST(PairTermTest, AParentThatOnlyThePriorProposedHasNoPairTerm) {
  std::mt19937 random(3);
  const Marginals marginals = PairedMarginals(random, 2, 4);
  CycleDraft draft(marginals);
  const CandidateWeights weights = CandidateWeights::ForDrafts();
  const TransitionGains gains(TableOf(kPairVocabulary, {{kPairRoot, {{900, 50}}}}));
  TransitionPrior prior({.vocabulary = kPairVocabulary, .table = &gains});
  prior.Append(kPairRoot);
  WeightedCandidates candidates(draft, 2, &prior, &weights);
  DraftTree tree(kPairRoot);
  ASSERT_GT(ProbabilityOf(candidates.After(tree, 0), 900), 0);
  tree.Add(0, 900, -1);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_NEAR(ProbabilityOf(candidates.After(tree, 1), marginals.token(1, rank)),
                std::exp(double{marginals.log_prob(1, rank)}), 1e-5);
  }
}

TEST(PairTermTest, ATokenThatOnlyThePriorProposesHasTheMeanPairScore) {
  Marginals marginals = MarginalsOf({{0.5, 0.3}});
  marginals.pair_scores = {3, 1, 0, 0};
  CycleDraft draft(marginals);
  const CandidateWeights weights = CandidateWeights::ForDrafts();
  const TransitionGains gains(TableOf(kPairVocabulary, {{kPairRoot, {{900, 30}}}}));
  TransitionPrior prior({.vocabulary = kPairVocabulary, .table = &gains});
  prior.Append(kPairRoot);
  WeightedCandidates candidates(draft, 1, &prior, &weights);
  const CandidateList list = candidates.After(DraftTree(kPairRoot), 0);
  const double mean = (0.5 * 3 + 0.3 * 1) / 0.8;
  const double gain = std::log(1 + 30 * kPairVocabulary / 20.0);
  const double first = 0.5 * std::exp(3 - mean), second = 0.3 * std::exp(1 - mean);
  const double outside =
      0.3 * std::exp(weights.At(1)[kOutsideTerm] + weights.At(1)[kFirstGainTerm] * gain);
  const double sum = first + second + outside;
  EXPECT_NEAR(ProbabilityOf(list, 0), 0.8 * first / sum, 1e-5);
  EXPECT_NEAR(ProbabilityOf(list, 1), 0.8 * second / sum, 1e-5);
  EXPECT_NEAR(ProbabilityOf(list, 900), 0.8 * outside / sum, 1e-5);
}

TEST(PairTermTest, ThePriorFindsCandidatesThatPairScoresMoved) {
  // Token 101 is first after 0 by its pair score. The table knows the other one.
  Marginals marginals = MarginalsOf({{0.6, 0.3}, {0.5, 0.4}});
  marginals.pair_scores = {0, 0, 0, 0, 0, 2, 0, 0};
  CycleDraft draft(marginals);
  const CandidateWeights weights = CandidateWeights::ForDrafts();
  const TransitionGains gains(TableOf(kPairVocabulary, {{0, {{100, 30}}}}));
  TransitionPrior prior({.vocabulary = kPairVocabulary, .table = &gains});
  prior.Append(kPairRoot);
  WeightedCandidates candidates(draft, 2, &prior, &weights);
  DraftTree tree(kPairRoot);
  tree.Add(0, 0, -1);
  const double gain = std::log(1 + 30 * kPairVocabulary / 20.0) * weights.At(2)[kFirstGainTerm];
  const double other = 0.5 * std::exp(gain), moved = 0.4 * std::exp(2.0);
  const CandidateList list = candidates.After(tree, 1);
  ASSERT_EQ(list.size, 2);
  EXPECT_NEAR(ProbabilityOf(list, 100), 0.9 * other / (other + moved), 1e-5);
  EXPECT_NEAR(ProbabilityOf(list, 101), 0.9 * moved / (other + moved), 1e-5);
}

TEST(PairTermTest, ExtremePairScoresStayFinite) {
  std::mt19937 random(4);
  CandidateWeights weights = CandidateWeights::ForDrafts();
  const TransitionGains gains(testing::RandomTable(kPairVocabulary, 12, 3));
  TransitionPrior prior({.vocabulary = kPairVocabulary, .table = &gains});
  prior.Append(kPairRoot);
  for (int cycle = 0; cycle < 50; ++cycle) {
    Marginals marginals = RandomMarginals(random, 2, 8, EdgeCase::kZeroTails);
    AddPairScores(random, kMaxPairScore, &marginals);
    CycleDraft draft(marginals);
    const TokenId chosen[] = {static_cast<TokenId>(random() % 8), marginals.token(1, 0)};
    WeightedCandidates::UpdateWeights(draft, &prior, chosen, &weights);
    WeightedCandidates candidates(draft, 2, &prior, &weights);
    const DraftTree tree = GrowBestFirst(kPairRoot, candidates, 30);
    for (NodeIndex node = 0; node < tree.rows(); ++node) {
      const CandidateList list = candidates.After(tree, node);
      for (int rank = 0; rank < list.size; ++rank) {
        EXPECT_FALSE(std::isnan(list.log_scores[rank]));
        EXPECT_LE(list.log_scores[rank], rank == 0 ? 0.0f : list.log_scores[rank - 1]);
      }
    }
  }
  EXPECT_TRUE(std::isfinite(weights.At(2)[kPairTerm]));
}

// A target that weighs the drafter's log-probability once and its pair score `truth` times.
class PairLearningTest : public ::testing::Test {
 protected:
  static constexpr int kPositions = 3, kCandidates = 8;

  Marginals Draw() { return PairedMarginals(random_, kPositions, kCandidates); }

  std::vector<TokenId> ChooseTokens(const Marginals& marginals, double truth) {
    std::vector<TokenId> chosen;
    int previous = 0;
    for (int position = 0; position < kPositions; ++position) {
      std::vector<double> probabilities;
      for (int rank = 0; rank < kCandidates; ++rank) {
        probabilities.push_back(PairProbability(marginals, position, previous, rank, {1, truth}));
      }
      previous = std::discrete_distribution<>(probabilities.begin(), probabilities.end())(random_);
      chosen.push_back(marginals.token(position, previous));
    }
    return chosen;
  }

  void Learn(double truth, int cycles) {
    for (int cycle = 0; cycle < cycles; ++cycle) {
      const Marginals marginals = Draw();
      WeightedCandidates::UpdateWeights(CycleDraft(marginals), nullptr,
                                        ChooseTokens(marginals, truth), &weights_);
    }
  }

  // The mean number of nodes that the target accepts of trees with 8 nodes, over 300 drafts.
  static double Accepted(const CandidateWeights& weights, double truth) {
    std::mt19937 random(99);
    double accepted = 0;
    for (int draw = 0; draw < 300; ++draw) {
      const Marginals marginals = PairedMarginals(random, kPositions, kCandidates);
      CycleDraft draft(marginals);
      WeightedCandidates candidates(draft, kPositions, nullptr, &weights);
      const DraftTree tree = GrowBestFirst(kPairRoot, candidates, 8);
      for (NodeIndex node = 1; node < tree.rows(); ++node) {
        const std::vector<int> ranks = testing::RanksOf(marginals, tree, node);
        double probability = 1;
        for (int i = 0; i < static_cast<int>(ranks.size()); ++i) {
          probability *=
              PairProbability(marginals, i, i == 0 ? 0 : ranks[i - 1], ranks[i], {1, truth});
        }
        accepted += probability / 300;
      }
    }
    return accepted;
  }

  std::mt19937 random_{5};
  CandidateWeights weights_ = CandidateWeights::ForDrafts();
};

TEST_F(PairLearningTest, TheWeightOfTrueScoresRises) {
  constexpr double kTruth = 1.8;
  Learn(kTruth, 2000);
  for (int depth = 1; depth <= kPositions; ++depth) {
    EXPECT_NEAR(weights_.At(depth)[kPairTerm], kTruth, 0.3);
  }
  EXPECT_GT(Accepted(weights_, kTruth), Accepted(CandidateWeights::ForDrafts(), kTruth) * 1.01);
  // Without pair scores, the tree would be worse still.
  EXPECT_GT(Accepted(CandidateWeights::ForDrafts(), kTruth),
            Accepted(WeightsOf(1, 0), kTruth) * 1.1);
}

TEST_F(PairLearningTest, TheWeightOfNoiseFallsToZero) {
  Learn(0, 2000);
  for (int depth = 1; depth <= kPositions; ++depth) {
    EXPECT_LT(weights_.At(depth)[kPairTerm], 0.15);
    EXPECT_NEAR(weights_.At(depth)[kDraftTerm], 1, 0.3);
  }
  EXPECT_GT(Accepted(weights_, 0), Accepted(CandidateWeights::ForDrafts(), 0) * 1.05);
}

TEST_F(PairLearningTest, EachDepthLearnsByItself) {
  for (int cycle = 0; cycle < 2000; ++cycle) {
    const Marginals marginals = Draw();
    std::vector<TokenId> chosen = ChooseTokens(marginals, 1.8);
    chosen[0] = ChooseTokens(marginals, 0)[0];
    chosen.resize(1);
    WeightedCandidates::UpdateWeights(CycleDraft(marginals), nullptr, chosen, &weights_);
  }
  // The cycles ended before depth 2.
  EXPECT_LT(weights_.At(1)[kPairTerm], 0.15);
  EXPECT_EQ(weights_.At(2), CandidateWeights::ForDrafts().At(2));
}

TEST_F(PairLearningTest, AfterATokenThatWasNotACandidateOnlyTheDraftTermLearns) {
  for (int cycle = 0; cycle < 200; ++cycle) {
    const Marginals marginals = Draw();
    const std::vector<TokenId> chosen = {kPairVocabulary, marginals.token(1, 0)};
    WeightedCandidates::UpdateWeights(CycleDraft(marginals), nullptr, chosen, &weights_);
  }
  EXPECT_EQ(weights_.At(1), CandidateWeights::ForDrafts().At(1));
  EXPECT_GT(weights_.At(2)[kDraftTerm], 1.2);
  EXPECT_EQ(weights_.At(2)[kPairTerm], 1);
}

TEST_F(PairLearningTest, WithoutPairScoresTheirWeightStays) {
  for (int cycle = 0; cycle < 500; ++cycle) {
    const Marginals marginals = Draw();
    const std::vector<TokenId> chosen = ChooseTokens(marginals, 0);
    Marginals plain = marginals;
    plain.pair_scores.clear();
    WeightedCandidates::UpdateWeights(CycleDraft(plain), nullptr, chosen, &weights_);
  }
  EXPECT_NE(weights_.At(1)[kDraftTerm], 1);
  for (int depth = 1; depth <= kPositions; ++depth) EXPECT_EQ(weights_.At(depth)[kPairTerm], 1);
}

}  // namespace
}  // namespace bastion
