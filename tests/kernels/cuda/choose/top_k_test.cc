#include <limits>

#include "tests/kernels/cuda/choose/choose_test_support.h"
#include "tests/kernels/cuda/choose/special_values.h"

namespace bastion::kernels::cuda {
namespace {

class DeviceTopKTest : public DeviceTest {
 protected:
  void ExpectOracleCandidates(const Races& races, int count) {
    const Candidates actual = DeviceCandidates(races, count, *stream_);
    const Candidates expected = OracleCandidates(races, count);
    EXPECT_EQ(actual.tokens, expected.tokens) << "V " << races.vocabulary() << ", K " << count;
    ExpectNear(actual.log_probs, expected.log_probs, "log-probabilities");
  }
};

std::vector<ChoiceRule> Uncoupled(int rows) { return std::vector<ChoiceRule>(rows); }

TEST_F(DeviceTopKTest, AgreesWithTheOracleOnTiesAndWholeVocabularies) {
  for (const int vocabulary : {1, 5, 31, 1000, 4096, 5003, 50000}) {
    for (const int candidates : {1, 2, 8, 64, 1000, kMaxCandidates}) {
      if (candidates > vocabulary) continue;
      ExpectOracleCandidates(RandomRaces(Uncoupled(2), vocabulary, 1), candidates);
      ExpectOracleCandidates(RandomRaces(Uncoupled(2), vocabulary, 2, 3.0f, 0.25f), candidates);
    }
    const int all = std::min(vocabulary, kMaxCandidates);
    ExpectOracleCandidates(RandomRaces(Uncoupled(1), vocabulary, 3), all);
  }
}

TEST_F(DeviceTopKTest, AgreesWithTheOracleOnAFullVocabulary) {
  const int rows = device_.name == "emulator" ? 1 : 16;
  ExpectOracleCandidates(RandomRaces(Uncoupled(rows), 151936, 4), 64);
  std::vector<ChoiceRule> rules;
  for (int r = 0; r < rows; ++r) rules.push_back({1, 77, r});
  ExpectOracleCandidates(RandomRaces(rules, 151936, 4), 64);
}

TEST_F(DeviceTopKTest, AgreesWithTheOracleOnMoreTiesThanTheShortlistHolds) {
  for (const int candidates : {1, 64, kMaxCandidates}) {
    Races races = {std::vector<float>(50000, 1.5f), Uncoupled(1)};
    ExpectOracleCandidates(races, candidates);
    for (int x = 0; x < 50000; x += 3) races.logits[x] = -4.0f;
    for (int x = 49000; x < 49010; ++x) races.logits[x] = 2.0f;
    ExpectOracleCandidates(races, candidates);
  }
}

TEST_F(DeviceTopKTest, AgreesWithTheOracleIfTheBestTokensShareAStripOrBlock) {
  for (const int step : {1, 8192, 4096, 4}) {
    Races races = RandomRaces(Uncoupled(1), 100000, 5, 1.0f);
    for (int i = 0; i < 1500 && i * step < 100000; ++i) races.logits[i * step] += 20.0f;
    ExpectOracleCandidates(races, kMaxCandidates);
    ExpectOracleCandidates(races, 12);
  }
}

TEST_F(DeviceTopKTest, AgreesWithTheOracleOnHugeAndSpecialValues) {
  Races races = RandomRaces(Uncoupled(1), 3000, 6, 1e30f);
  races.logits[5] = kMasked;
  races.logits[6] = std::numeric_limits<float>::lowest();
  races.logits[7] = -0.0f;
  races.logits[8] = 0.0f;
  races.logits[9] = std::numeric_limits<float>::denorm_min();
  const Candidates actual = DeviceCandidates(races, 1000, *stream_);
  EXPECT_EQ(actual.tokens, OracleCandidates(races, 1000).tokens);
  races.logits.assign(3000, kMasked);
  races.logits[2000] = -3.0f;
  ExpectOracleCandidates(races, 1);
  EXPECT_EQ(DeviceCandidates(races, 5, *stream_).tokens, (std::vector<int32_t>{2000, 0, 1, 2, 3}));
}

TEST_F(DeviceTopKTest, CoupledCandidatesAreRankedLikeTheKeyedChoice) {
  for (const int vocabulary : {19, 1003, 4096, 50000}) {
    std::vector<ChoiceRule> rules;
    for (int r = 0; r < (vocabulary > 5000 ? 4 : 20); ++r) {
      rules.push_back({r % 2 != 0 ? 0.7f : 1.3f, 99, 1000 + r});
      if (r % 3 == 0) rules.back().top_p = 0.8f;
      if (r % 3 == 1) rules.back().top_k = 9;
    }
    rules[2].temperature = 0;  // This row is not coupled; its neighbors are.
    const Races races = RandomRaces(rules, vocabulary, 7);
    ExpectOracleCandidates(races, 16);
    const std::vector<int32_t> best = DeviceCandidates(races, 1, *stream_).tokens;
    EXPECT_EQ(best, DeviceChoices(races, *stream_));
  }
}

TEST_F(DeviceTopKTest, AgreesWithTheOracleOnCoupledTruncatedRows) {
  for (const int vocabulary : {5, 31, 5000}) {
    ExpectOracleCandidates(RandomRaces(TruncatingRules(vocabulary), vocabulary, 8, 3.0f, 0.25f),
                           std::min(vocabulary, 40));
  }
}

TEST_F(DeviceTopKTest, ColumnsOfSomeTokensAgreeWithTheOracle) {
  for (const int columns : {5, 31, 1003, 4096}) {
    std::vector<int32_t> ids;
    for (int x = 0; x < columns; ++x) ids.push_back(x < 20 ? x : 20 + (x - 20) * 7 / 2);
    Races tied = RandomRaces(Uncoupled(2), columns, 11, 3.0f, 0.25f);
    tied.ids = ids;
    ExpectOracleCandidates(tied, std::min(columns, 64));
    // Without ties: the oracle of builds without libtorch sums masses as floats, so it may cut
    // ties at another token.
    Races coupled = RandomRaces(TruncatingRules(columns), columns, 12);
    coupled.ids = ids;
    ExpectOracleCandidates(coupled, std::min(columns, 40));
  }
}

TEST_F(DeviceTopKTest, IdsOfAllTokensChangeNoBit) {
  std::vector<ChoiceRule> rules;
  for (int r = 0; r < 4; ++r) rules.push_back({0.7f, 99, 1000 + r});
  Races races = RandomRaces(rules, 1003, 13);
  const Candidates expected = DeviceCandidates(races, 64, *stream_);
  for (int x = 0; x < 1003; ++x) races.ids.push_back(x);
  const Candidates actual = DeviceCandidates(races, 64, *stream_);
  EXPECT_EQ(actual.tokens, expected.tokens);
  EXPECT_TRUE(
      SameBits(actual.log_probs.data(), expected.log_probs.data(), actual.log_probs.size()));
}

TEST_F(DeviceTopKTest, RowsWithNansGiveInvalidCandidates) {
  for (const int vocabulary : {64, 9000}) {
    for (const ChoiceRule& rule : {ChoiceRule{}, ChoiceRule{1, 2, 3}, ChoiceRule{1, 2, 3, 5},
                                   ChoiceRule{1, 2, 3, 0, 0.9f}}) {
      Races races = RandomRaces({rule, rule, rule}, vocabulary, 9);
      std::fill_n(races.logits.begin(), vocabulary, kNan);
      races.logits[3 * vocabulary - 1] = -kNan;
      const Candidates actual = DeviceCandidates(races, 4, *stream_);
      const Candidates expected = OracleCandidates(
          {{races.logits.begin() + vocabulary, races.logits.begin() + 2 * vocabulary}, {rule}}, 4);
      for (int k = 0; k < 4; ++k) {
        for (const int row : {0, 2}) {
          EXPECT_EQ(actual.tokens[4 * row + k], -1);
          EXPECT_TRUE(std::isnan(actual.log_probs[4 * row + k]));
        }
        EXPECT_EQ(actual.tokens[4 + k], expected.tokens[k]);
      }
    }
  }
}

TEST_F(DeviceTopKTest, RepeatedLaunchesGiveTheSameBits) {
  ExpectSameCandidatesOverLaunches(RandomRaces(TruncatingRules(5000), 5000, 10), 64, *stream_);
  ExpectSameCandidatesOverLaunches(RandomRaces(Uncoupled(3), 5000, 10), 64, *stream_);
}

// Log-probabilities of the rows and tokens `scored`.
struct Scores {
  std::vector<float> chosen;
  Candidates top;
};

Scores DeviceScores(const Races& races, const std::vector<ScoredToken>& scored, int count,
                    Stream& stream) {
  const size_t rows = scored.size();
  const OnDevice<float> logits(races.logits), chosen(rows), log_probs(rows * count);
  const OnDevice<ScoredToken> list(scored);
  const OnDevice<int32_t> tokens(rows * count);
  TopKArgs args;
  args.logits = logits.data();
  args.tokens = tokens.data();
  args.log_probs = log_probs.data();
  args.rows = static_cast<int>(rows);
  args.vocabulary = races.vocabulary();
  args.candidates = count;
  args.scored = list.data();
  args.chosen = chosen.data();
  TopK(args, stream);
  EXPECT_TRUE(stream.Synchronize().ok());
  return {chosen.Read(), {tokens.Read(), log_probs.Read()}};
}

TEST_F(DeviceTopKTest, ScoresTheTokensOfAListOfRows) {
  const Races races = RandomRaces(Uncoupled(4), 5003, 41, 3.0f, 0.25f);
  const Candidates expected = OracleCandidates(races, 20);
  const std::vector<ScoredToken> scored = {{3, 5002}, {1, 0}, {3, 17}};
  const Scores actual = DeviceScores(races, scored, 20, *stream_);
  for (size_t i = 0; i < scored.size(); ++i) {
    const float* const row = races.logits.data() + size_t(scored[i].row) * races.vocabulary();
    const size_t first = size_t(scored[i].row) * 20;
    EXPECT_NEAR(actual.chosen[i],
                row[scored[i].token] - row[expected.tokens[first]] + expected.log_probs[first],
                1e-4f);
    for (size_t k = 0; k < 20; ++k) {
      EXPECT_EQ(actual.top.tokens[i * 20 + k], expected.tokens[first + k]);
      EXPECT_NEAR(actual.top.log_probs[i * 20 + k], expected.log_probs[first + k], 1e-4f);
    }
  }
}

TEST_F(DeviceTopKTest, AScoreDoesNotDependOnTheOtherRowsOrTheNumberOfCandidates) {
  const Races races = RandomRaces(Uncoupled(6), 9001, 42);
  std::vector<ScoredToken> scored;
  for (int32_t row = 5; row >= 0; --row) scored.push_back({row, 1000 * row});
  const Scores all = DeviceScores(races, scored, 20, *stream_);
  for (size_t i = 0; i < scored.size(); ++i) {
    for (const int count : {1, 7}) {
      const Scores one = DeviceScores(races, {scored[i]}, count, *stream_);
      EXPECT_TRUE(SameBits(one.chosen.data(), all.chosen.data() + i, 1));
      EXPECT_TRUE(SameBits(one.top.log_probs.data(), all.top.log_probs.data() + i * 20, count));
    }
  }
}

TEST_F(DeviceTopKTest, AScoreOfExcludedOrDamagedLogitsIsNotANumberToTrust) {
  Races races = RandomRaces(Uncoupled(2), 300, 43);
  races.logits[7] = kMasked;
  races.logits[300] = kNan;
  const Scores scores = DeviceScores(races, {{0, 7}, {1, 8}}, 2, *stream_);
  EXPECT_EQ(scores.chosen[0], kMasked);
  EXPECT_TRUE(std::isnan(scores.chosen[1]));
  EXPECT_EQ(scores.top.tokens[2], -1);
}

}  // namespace
}  // namespace bastion::kernels::cuda
