// Tests which tokens survive top-k, top-p and min-p on the device, and which of them is chosen. The
// last bits of a sum can decide where top-p stops, so the oracle must sum in double precision. Only
// builds with libtorch have these tests.
#include "kernels/cuda/choose/truncation.h"

#include "tests/kernels/cuda/choose/choose_test_support.h"
#include "tests/kernels/cuda/choose/special_values.h"

namespace bastion::kernels::cuda {
namespace {

class TruncationTest : public DeviceTest {
 protected:
  void ExpectOracleChoices(const Races& races) {
    EXPECT_EQ(DeviceChoices(races, *stream_), OracleChoices(races)) << "V " << races.vocabulary();
  }

  // The survivors according to the oracle, as one flag per logit: the tokens with a log-probability
  // above −inf.
  static std::vector<bool> OracleSurvivors(const Races& races) {
    const int vocabulary = races.vocabulary();
    const Candidates all = OracleCandidates(races, vocabulary);
    std::vector<bool> survives(races.logits.size());
    for (size_t i = 0; i < survives.size(); ++i) {
      survives[i / vocabulary * vocabulary + all.tokens[i]] = all.log_probs[i] > kMasked;
    }
    return survives;
  }
  static bool Truncates(const ChoiceRule& rule) {
    return rule.temperature > 0 && (rule.top_k > 0 || rule.top_p < 1 || rule.min_p > 0);
  }
  void ExpectOracleSurvivors(const Races& races) {
    const OnDevice<float> logits(races.logits);
    const OnDevice<ChoiceRule> rules(races.rules);
    const OnDevice<int32_t> used(1, races.rows());
    const OnDevice<TruncationRow> found(races.rows(), TruncationRow{});
    Truncate({used.data(), logits.data(), rules.data(), reinterpret_cast<char*>(found.data()),
              sizeof(TruncationRow), nullptr, races.rows(), races.vocabulary()},
             *stream_);
    Finish();
    const std::vector<bool> expected = OracleSurvivors(races);
    std::vector<Survivors> actual;
    for (const TruncationRow& row : found.Read()) {
      actual.push_back(Truncates(races.rules[actual.size()]) ? row.survivors
                                                             : Survivors{kMasked, INT32_MAX});
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t row = i / races.vocabulary(), token = i % races.vocabulary();
      const bool survives = races.logits[i] > actual[row].min_logit ||
                            (races.logits[i] == actual[row].min_logit &&
                             static_cast<int32_t>(token) <= actual[row].last_tied);
      const ChoiceRule& rule = races.rules[row];
      ASSERT_EQ(survives, expected[i])
          << "token " << token << " of " << races.vocabulary() << ", T " << rule.temperature
          << ", top-k " << rule.top_k << ", top-p " << rule.top_p << ", min-p " << rule.min_p;
    }
  }
};

TEST_F(TruncationTest, TruncatedChoicesAgreeWithTheOracle) {
  for (const int vocabulary : {1, 5, 31, 4096, 20000}) {
    ExpectOracleChoices(RandomRaces(TruncatingRules(vocabulary, 0), vocabulary, 14));
    ExpectOracleChoices(RandomRaces(TruncatingRules(vocabulary, 1), vocabulary, 15, 3.0f, 0.25f));
  }
  ExpectOracleChoices(RandomRaces(TruncatingRules(50000, 2), 50000, 15, 3.0f, 0.25f));
}

TEST_F(TruncationTest, SurvivorsAgreeWithTheOracle) {
  for (const int vocabulary : {1, 5, 31, 1030, 4096, 20000}) {
    ExpectOracleSurvivors(RandomRaces(TruncatingRules(vocabulary, 0), vocabulary, 16));
    ExpectOracleSurvivors(RandomRaces(TruncatingRules(vocabulary, 1), vocabulary, 17, 3.0f, 0.25f));
    // Logits that are too flat for a shortlist, then zeros of both signs.
    ExpectOracleSurvivors(RandomRaces(TruncatingRules(vocabulary, 2), vocabulary, 18, 0.1f));
    ExpectOracleSurvivors(
        RandomRaces(TruncatingRules(vocabulary, 0), vocabulary, 19, 1.0f, 100.0f));
  }
}

TEST_F(TruncationTest, TopPStopsAsSoonAsTheMassIsReached) {
  for (const int vocabulary : {8, 4096, 20000}) {
    std::vector<ChoiceRule> rules;
    for (const float top_p : {0.125f, 0.25f, 0.5f, 0.75f, 1e-6f, 0.0f}) {
      rules.push_back({1, 1, 1, 0, top_p});
      rules.push_back({1, 1, 1, 4, top_p});
    }
    ExpectOracleSurvivors({std::vector<float>(rules.size() * vocabulary, 2.0f), rules});
  }
}

}  // namespace
}  // namespace bastion::kernels::cuda
