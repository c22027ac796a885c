#include "orchestrator/prior/transition_prior.h"

#include <cmath>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/transition_tables.h"

namespace bastion {
namespace {

using ::bastion::testing::TableOf;
using ::testing::ElementsAre;

constexpr int kVocabulary = 10;

size_t Index(PriorSource source) { return static_cast<size_t>(source); }

std::map<TokenId, TokenGains> GainsAfter(const TransitionPrior& prior,
                                         absl::Span<const TokenId> following = {}) {
  GainList gains;
  prior.CollectGains(prior.TokensBefore(following), &gains);
  std::map<TokenId, TokenGains> by_token;
  for (const TokenGains& entry : gains.entries()) by_token[entry.token] = entry;
  return by_token;
}

TEST(TransitionPriorTest, HasNoGainsBeforeTheFirstToken) {
  const TransitionPrior prior({.vocabulary = kVocabulary});
  EXPECT_TRUE(GainsAfter(prior).empty());
  EXPECT_FLOAT_EQ(prior.Probability(3), 0.1f);
}

TEST(TransitionPriorTest, TableGainsMatchAHandComputation) {
  const TransitionGains table(
      TableOf(kVocabulary, {{4, {{7, 30}, {8, 10}}}}, {{{3, 4}, {{7, 5}}}}));
  TransitionPrior prior({.vocabulary = kVocabulary, .table = &table, .request = false});
  prior.Append(3);
  prior.Append(4);
  const auto found = GainsAfter(prior);
  ASSERT_EQ(found.size(), 2);
  // P = 1/10 for all tokens; k = 20 for the table.
  const TokenGains& seven = found.at(7);
  EXPECT_FLOAT_EQ(seven.probability, 0.1f);
  EXPECT_NEAR(seven.gains[Index(PriorSource::kTableOne)], std::log(1 + 30 / 2.0), 1e-5);
  const double one = (30 + 2.0) / (40 + 20);
  EXPECT_NEAR(seven.gains[Index(PriorSource::kTableTwo)], std::log(1 + 5 / (20 * one)), 1e-5);
  const TokenGains& eight = found.at(8);
  EXPECT_NEAR(eight.gains[Index(PriorSource::kTableOne)], std::log(1 + 10 / 2.0), 1e-5);
  EXPECT_EQ(eight.gains[Index(PriorSource::kTableTwo)], 0);
}

TEST(TransitionPriorTest, WithWeightsOfOneTheGainsGiveTheInterpolatedProbability) {
  const TransitionGains table(TableOf(kVocabulary, {{4, {{7, 30}, {8, 10}, {2, 3}}}}));
  TransitionPrior prior({.vocabulary = kVocabulary, .table = &table});
  for (const TokenId token : {4, 8, 1, 4, 8, 1, 4}) prior.Append(token);
  GainList gains;
  prior.CollectGains(prior.TokensBefore({}), &gains);
  // Interpolates the table, then the request's contexts of one, two and three tokens.
  const auto interpolated = [](double p, TokenId token) {
    const double in_table = token == 7 ? 30 : token == 8 ? 10 : token == 2 ? 3 : 0;
    p = (in_table + 20 * p) / (43 + 20);
    // In the request, 8 followed [4] twice, and [1 4] and [8 1 4] once each.
    const double in_request = token == 8 ? 1 : 0;
    p = (2 * in_request + p) / (2 + 1);
    p = (in_request + p) / (1 + 1);
    return (in_request + p) / (1 + 1);
  };
  double seen = 0, weighed = 0;
  for (const TokenGains& entry : gains.entries()) {
    float gain = 0;
    for (const float g : entry.gains) gain += g;
    seen += entry.probability;
    weighed += entry.probability * std::exp(gain);
  }
  const double sum = 1 - seen + weighed;
  for (const TokenGains& entry : gains.entries()) {
    float gain = 0;
    for (const float g : entry.gains) gain += g;
    EXPECT_NEAR(entry.probability * std::exp(gain) / sum, interpolated(0.1, entry.token), 1e-5)
        << entry.token;
  }
}

TEST(TransitionPriorTest, ARequestPredictsItsOwnRepetitions) {
  TransitionPrior prior({.vocabulary = kVocabulary});
  for (const TokenId token : {1, 2, 3, 9, 1, 2, 3}) prior.Append(token);
  const auto found = GainsAfter(prior);
  ASSERT_EQ(found.size(), 1);
  for (const PriorSource source :
       {PriorSource::kRequestOne, PriorSource::kRequestTwo, PriorSource::kRequestThree}) {
    EXPECT_GT(found.at(9).gains[Index(source)], 0);
  }
  EXPECT_TRUE(GainsAfter(prior, {5}).empty());
  EXPECT_EQ(GainsAfter(prior, {9}).count(1), 1);
}

TEST(TransitionPriorTest, RequestsShareCountsOnlyThroughLearnedCounts) {
  TransitionPrior first({.vocabulary = kVocabulary});
  TransitionPrior second({.vocabulary = kVocabulary});
  for (const TokenId token : {1, 2, 1, 2}) first.Append(token);
  second.Append(1);
  EXPECT_TRUE(GainsAfter(second).empty());

  ContinuationCounts learned(1 << 8);
  TransitionPrior third({.vocabulary = kVocabulary, .learned = &learned});
  TransitionPrior fourth({.vocabulary = kVocabulary, .learned = &learned});
  for (const TokenId token : {1, 2, 1, 2}) third.Append(token);
  fourth.Append(1);
  const auto found = GainsAfter(fourth);
  EXPECT_GT(found.at(2).gains[Index(PriorSource::kLearnedOne)], 0);
  EXPECT_EQ(found.at(2).gains[Index(PriorSource::kRequestOne)], 0);
}

TEST(TransitionPriorTest, TokensBeforeANodeAreItsPathAndThenTheText) {
  TransitionPrior prior({.vocabulary = kVocabulary});
  for (const TokenId token : {1, 2, 3}) prior.Append(token);
  DraftTree tree(3);
  const NodeIndex child = tree.Add(0, 4, -1);
  const NodeIndex sibling = tree.Add(0, 5, -1);
  const NodeIndex deep = tree.Add(tree.Add(tree.Add(sibling, 6, -2), 7, -3), 8, -4);
  EXPECT_THAT(prior.TokensBefore(tree, 0).tokens, ElementsAre(3, 2, 1));
  EXPECT_THAT(prior.TokensBefore(tree, child).tokens, ElementsAre(4, 3, 2));
  EXPECT_THAT(prior.TokensBefore(tree, sibling).tokens, ElementsAre(5, 3, 2));
  EXPECT_THAT(prior.TokensBefore(tree, deep).tokens, ElementsAre(8, 7, 6));
  EXPECT_THAT(prior.TokensBefore({4}).tokens, ElementsAre(4, 3, 2));
}

TEST(TransitionPriorTest, TheGainListHoldsTheEntriesOfAllSources) {
  std::map<TokenId, testing::Counted> singles;
  std::map<std::pair<TokenId, TokenId>, testing::Counted> pairs;
  for (TokenId token = 0; token < 100; ++token) {
    singles[1].push_back({token, 5});
    pairs[{1, 1}].push_back({token + 100, 5});
  }
  const TransitionGains table(TableOf(300, singles, pairs));
  TransitionPrior prior({.vocabulary = 300, .table = &table});
  for (TokenId token = 200; token < 280; ++token) {
    for (const TokenId next : {1, 1, 1, token}) prior.Append(next);
  }
  for (int i = 0; i < 3; ++i) prior.Append(1);
  const auto found = GainsAfter(prior);
  EXPECT_GE(found.size(), 2 * TransitionGains::kMaxContinuations);
  EXPECT_LE(found.size(), kPriorSources * TransitionGains::kMaxContinuations);
}

TEST(TransitionPriorTest, ATokenOutsideTheVocabularyClearsTheContext) {
  const TransitionGains table(TableOf(kVocabulary, {{4, {{7, 30}}}}));
  TransitionPrior prior({.vocabulary = kVocabulary, .table = &table});
  for (const TokenId token : {4, 10, 1 << 30, -1}) {
    prior.Append(token);
    EXPECT_EQ(GainsAfter(prior).empty(), token != 4) << token;
  }
  prior.Append(4);
  EXPECT_EQ(GainsAfter(prior).size(), 1);
}

}  // namespace
}  // namespace bastion
