#include <limits>

#include "kernels/cuda/choose/truncation.h"
#include "tests/kernels/cuda/choose/choose_test_support.h"

namespace bastion::kernels::cuda {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class DeviceChooseTest : public DeviceTest {
 protected:
  void ExpectReferenceChoices(const Races& races) {
    EXPECT_EQ(DeviceChoices(races, *stream_), ReferenceChoices(races))
        << "V " << races.vocabulary();
  }
  int32_t ChooseOne(const std::vector<float>& logits, const ChoiceRule& rule) {
    return DeviceChoices({logits, {rule}}, *stream_)[0];
  }

  // For each row, the tokens that remain after truncation by the reference: those whose
  // log-probability is not −inf.
  static std::vector<bool> ReferenceSurvivors(const Races& races) {
    const int vocabulary = races.vocabulary();
    const Candidates all = ReferenceCandidates(races, vocabulary);
    std::vector<bool> survives(races.logits.size());
    for (size_t i = 0; i < survives.size(); ++i) {
      survives[i / vocabulary * vocabulary + all.tokens[i]] = all.log_probs[i] > kOut;
    }
    return survives;
  }
  void ExpectReferenceSurvivors(const Races& races) {
    const OnDevice<float> logits(races.logits);
    const OnDevice<ChoiceRule> rules(races.rules);
    const OnDevice<int32_t> used(1, races.rows());
    const OnDevice<Survivors> found(races.rows(), Survivors{kOut, INT32_MAX});
    Truncate(
        {used.data(), logits.data(), rules.data(), found.data(), races.rows(), races.vocabulary()},
        *stream_);
    Finish();
    const std::vector<bool> expected = ReferenceSurvivors(races);
    const std::vector<Survivors> actual = found.Read();
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t row = i / races.vocabulary(), token = i % races.vocabulary();
      const bool survives = races.logits[i] > actual[row].least ||
                            (races.logits[i] == actual[row].least &&
                             static_cast<int32_t>(token) <= actual[row].last_tied);
      const ChoiceRule& rule = races.rules[row];
      ASSERT_EQ(survives, expected[i])
          << "token " << token << " of " << races.vocabulary() << ", T " << rule.temperature
          << ", top-k " << rule.top_k << ", top-p " << rule.top_p << ", min-p " << rule.min_p;
    }
  }
};

TEST_F(DeviceChooseTest, AgreesWithTheReferenceThatComputesAllNoise) {
  for (const int vocabulary : {1, 5, 31, 4096, 4097, 50000}) {
    std::vector<ChoiceRule> rules;
    for (const float temperature : {0.0f, 0.01f, 0.3f, 1.0f, 1.5f, 1000.0f}) {
      for (int i = 0; i < (vocabulary > 5000 ? 2 : 20); ++i) {
        rules.push_back({temperature, 0x123456789ABCDEFull, 17 + i});
      }
    }
    ExpectReferenceChoices(RandomRaces(rules, vocabulary, 11));
    ExpectReferenceChoices(RandomRaces(rules, vocabulary, 12, 3.0f, 0.5f));
  }
}

TEST_F(DeviceChooseTest, ChoosesFromARealVocabulary) {
  const int copies = device_.name == "emulator" ? 1 : 16;
  std::vector<ChoiceRule> rules;
  for (int i = 0; i < copies; ++i) {
    rules.push_back({0, 1, i});
    rules.push_back({1, 2, i});
    rules.push_back({0.6f, 3, i, 20, 0.95f});
    rules.push_back({1.5f, 4, i, 0, 0.9f});
  }
  ExpectReferenceChoices(RandomRaces(rules, 151936, 13));
}

TEST_F(DeviceChooseTest, TruncatedChoicesAgreeWithTheReference) {
  for (const int vocabulary : {1, 5, 31, 4096, 20000}) {
    ExpectReferenceChoices(RandomRaces(Cuts(vocabulary, 0), vocabulary, 14));
    ExpectReferenceChoices(RandomRaces(Cuts(vocabulary, 1), vocabulary, 15, 3.0f, 0.25f));
  }
  ExpectReferenceChoices(RandomRaces(Cuts(50000, 2), 50000, 15, 3.0f, 0.25f));
}

TEST_F(DeviceChooseTest, SurvivorsAgreeWithTheReference) {
  for (const int vocabulary : {1, 5, 31, 1030, 4096, 20000}) {
    ExpectReferenceSurvivors(RandomRaces(Cuts(vocabulary, 0), vocabulary, 16));
    ExpectReferenceSurvivors(RandomRaces(Cuts(vocabulary, 1), vocabulary, 17, 3.0f, 0.25f));
    // Distributions that are too flat for a shortlist, and zeros of both signs.
    ExpectReferenceSurvivors(RandomRaces(Cuts(vocabulary, 2), vocabulary, 18, 0.1f));
    ExpectReferenceSurvivors(RandomRaces(Cuts(vocabulary, 0), vocabulary, 19, 1.0f, 100.0f));
  }
}

TEST_F(DeviceChooseTest, TopPStopsAtExactlyEnoughMass) {
  for (const int vocabulary : {8, 4096, 20000}) {
    std::vector<ChoiceRule> rules;
    for (const float top_p : {0.125f, 0.25f, 0.5f, 0.75f, 1e-6f, 0.0f}) {
      rules.push_back({1, 1, 1, 0, top_p});
      rules.push_back({1, 1, 1, 4, top_p});
    }
    ExpectReferenceSurvivors({std::vector<float>(rules.size() * vocabulary, 2.0f), rules});
  }
}

TEST_F(DeviceChooseTest, MinPOfOneKeepsTheBestTokensAndMoreKeepsNone) {
  std::vector<float> logits = RandomFloats(5000, 20);
  logits[70] = logits[4000] = 20.0f;
  EXPECT_EQ(ChooseOne(logits, {0.01f, 1, 1, 0, 1, 1.0f}), ChooseOne(logits, {0.01f, 1, 1}));
  EXPECT_EQ(ChooseOne(logits, {1, 1, 1, 0, 1, 1.5f}), -1);
}

TEST_F(DeviceChooseTest, TiesGoToTheLowestIdAcrossBlocks) {
  std::vector<float> logits = RandomFloats(20000, 21);
  logits[41] = logits[200] = logits[5000] = logits[19999] = 50.0f;
  EXPECT_EQ(ChooseOne(logits, {0, 1, 1}), 41);
  logits[41] = 0;
  logits[200] = 0;
  EXPECT_EQ(ChooseOne(logits, {0, 1, 1}), 5000);
  EXPECT_EQ(ChooseOne({-1, 0.0f, -0.0f, -2}, {0, 1, 1}), 1);
  EXPECT_EQ(ChooseOne({-1, -0.0f, 0.0f, -2}, {0, 1, 1}), 1);
}

TEST_F(DeviceChooseTest, TokensWithInfiniteNegativeLogitsAreNeverChosen) {
  for (const int vocabulary : {100, 9000}) {
    std::vector<float> logits(vocabulary, kOut);
    logits[57] = -3.0f;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      for (const ChoiceRule& rule :
           {ChoiceRule{2, seed, 4}, ChoiceRule{2, seed, 4, 10, 0.9f, 0.1f}, ChoiceRule{0, seed, 4},
            ChoiceRule{2, seed, 4, 0, 0.9f}, ChoiceRule{2, seed, 4, 0, 1, 0.1f}}) {
        EXPECT_EQ(ChooseOne(logits, rule), 57);
      }
    }
  }
}

TEST_F(DeviceChooseTest, ARowWithoutFiniteLogitsGivesNoToken) {
  const std::vector<ChoiceRule> rules = {{0, 1, 1},          {1, 0, 0},    {1, 0, 0, 5, 0.9f},
                                         {1, 0, 0, 0, 0.9f}, {1, 0, 0, 5}, {1, 0, 0, 0, 1, 0.1f}};
  for (const float value : {kNan, -kNan, kOut}) {
    for (const int vocabulary : {1, 64, 9000}) {
      const Races races = {std::vector<float>(rules.size() * vocabulary, value), rules};
      EXPECT_EQ(DeviceChoices(races, *stream_), std::vector<int32_t>(rules.size(), -1));
    }
  }
}

TEST_F(DeviceChooseTest, ANanIsNeverChosen) {
  std::vector<float> logits(9000, 1.0f);
  for (int x = 0; x < 9000; x += 2) logits[x] = x % 4 == 0 ? kNan : -kNan;
  EXPECT_EQ(ChooseOne(logits, {0, 1, 1}), 1);
  for (uint64_t seed = 0; seed < 10; ++seed) EXPECT_EQ(ChooseOne(logits, {1, seed, 1}) % 2, 1);
  EXPECT_EQ(ChooseOne(logits, {1, 1, 1, 5}), -1);  // Like the CPU kernels.
}

TEST_F(DeviceChooseTest, LaunchesLeaveTheirScratchClean) {
  const Races races = RandomRaces(Cuts(9000), 9000, 22);
  EXPECT_EQ(DeviceChoices(races, *stream_, 3), ReferenceChoices(races));
}

TEST_F(DeviceChooseTest, ScratchCanBeReusedForOtherRowCounts) {
  const int rows = 4, vocabulary = 9000;
  const OnDevice<char> scratch(ChooseScratchBytes(rows), 0);
  for (const int in_use : {4, 1, 3, 0, 4}) {
    std::vector<ChoiceRule> rules(rows, ChoiceRule{1, uint64_t(in_use), 3});
    if (in_use == 3) rules[1].top_k = 5;
    const Races races = RandomRaces(rules, vocabulary, 23 + in_use);
    const OnDevice<float> logits(races.logits);
    const OnDevice<ChoiceRule> on_device(rules);
    const OnDevice<int32_t> used(1, in_use), tokens(rows, kUntouched);
    Choose({used.data(), logits.data(), on_device.data(), tokens.data(), scratch.data(), rows,
            vocabulary},
           *stream_);
    Finish();
    std::vector<int32_t> expected = ReferenceChoices(races);
    std::fill(expected.begin() + in_use, expected.end(), kUntouched);
    EXPECT_EQ(tokens.Read(), expected);
  }
}

}  // namespace
}  // namespace bastion::kernels::cuda
