
#include "tests/kernels/cuda/choose/choose_test_support.h"
#include "tests/kernels/cuda/choose/special_values.h"

namespace bastion::kernels::cuda {
namespace {

class DeviceChooseTest : public DeviceTest {
 protected:
  void ExpectOracleChoices(const Races& races) {
    EXPECT_EQ(DeviceChoices(races, *stream_), OracleChoices(races)) << "V " << races.vocabulary();
  }
  int32_t ChooseOne(const std::vector<float>& logits, const ChoiceRule& rule) {
    return DeviceChoices({logits, {rule}}, *stream_)[0];
  }
};

TEST_F(DeviceChooseTest, AgreesWithTheOracle) {
  for (const int vocabulary : {1, 5, 31, 4096, 4097, 50000}) {
    std::vector<ChoiceRule> rules;
    for (const float temperature : {0.0f, 0.01f, 0.3f, 1.0f, 1.5f, 1000.0f}) {
      for (int i = 0; i < (vocabulary > 5000 ? 2 : 20); ++i) {
        rules.push_back({temperature, 0x123456789ABCDEFull, 17 + i});
      }
    }
    ExpectOracleChoices(RandomRaces(rules, vocabulary, 11));
    ExpectOracleChoices(RandomRaces(rules, vocabulary, 12, 3.0f, 0.5f));
  }
}

TEST_F(DeviceChooseTest, AgreesWithTheOracleOnAFullVocabulary) {
  const int copies = device_.name == "emulator" ? 1 : 16;
  std::vector<ChoiceRule> rules;
  for (int i = 0; i < copies; ++i) {
    rules.push_back({0, 1, i});
    rules.push_back({1, 2, i});
    rules.push_back({0.6f, 3, i, 20, 0.95f});
    rules.push_back({1.5f, 4, i, 0, 0.9f});
  }
  ExpectOracleChoices(RandomRaces(rules, 151936, 13));
}

TEST_F(DeviceChooseTest, AMinPOfOneKeepsTheBestTokensAndALargerMinPKeepsNone) {
  std::vector<float> logits = RandomFloats(5000, 20);
  logits[70] = logits[4000] = 20.0f;
  EXPECT_EQ(ChooseOne(logits, {0.01f, 1, 1, 0, 1, 1.0f}), ChooseOne(logits, {0.01f, 1, 1}));
  EXPECT_EQ(ChooseOne(logits, {1, 1, 1, 0, 1, 1.5f}), -1);
}

TEST_F(DeviceChooseTest, TiesGoToTheLowestIdInAnyBlock) {
  std::vector<float> logits = RandomFloats(20000, 21);
  logits[41] = logits[200] = logits[5000] = logits[19999] = 50.0f;
  EXPECT_EQ(ChooseOne(logits, {0, 1, 1}), 41);
  logits[41] = 0;
  logits[200] = 0;
  EXPECT_EQ(ChooseOne(logits, {0, 1, 1}), 5000);
  EXPECT_EQ(ChooseOne({-1, 0.0f, -0.0f, -2}, {0, 1, 1}), 1);
  EXPECT_EQ(ChooseOne({-1, -0.0f, 0.0f, -2}, {0, 1, 1}), 1);
}

TEST_F(DeviceChooseTest, MaskedTokensAreNeverChosen) {
  for (const int vocabulary : {100, 9000}) {
    std::vector<float> logits(vocabulary, kMasked);
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

TEST_F(DeviceChooseTest, RowsWithOnlyNansOrMaskedLogitsGiveNoToken) {
  const std::vector<ChoiceRule> rules = {{0, 1, 1},          {1, 0, 0},    {1, 0, 0, 5, 0.9f},
                                         {1, 0, 0, 0, 0.9f}, {1, 0, 0, 5}, {1, 0, 0, 0, 1, 0.1f}};
  for (const float value : {kNan, -kNan, kMasked}) {
    for (const int vocabulary : {1, 64, 9000}) {
      const Races races = {std::vector<float>(rules.size() * vocabulary, value), rules};
      EXPECT_EQ(DeviceChoices(races, *stream_), std::vector<int32_t>(rules.size(), -1));
    }
  }
}

TEST_F(DeviceChooseTest, ANanNeverWins) {
  std::vector<float> logits(9000, 1.0f);
  for (int x = 0; x < 9000; x += 2) logits[x] = x % 4 == 0 ? kNan : -kNan;
  EXPECT_EQ(ChooseOne(logits, {0, 1, 1}), 1);
  for (uint64_t seed = 0; seed < 10; ++seed) EXPECT_EQ(ChooseOne(logits, {1, seed, 1}) % 2, 1);
  EXPECT_EQ(ChooseOne(logits, {1, 1, 1, 5}), -1) << "no token of a row with NaNs survives top-k";
}

TEST_F(DeviceChooseTest, LaunchesCanReuseTheirScratch) {
  const Races races = RandomRaces(TruncatingRules(9000), 9000, 22);
  EXPECT_EQ(DeviceChoices(races, *stream_, 3), OracleChoices(races));
}

TEST_F(DeviceChooseTest, ScratchCanBeReusedWithADifferentNumberOfRows) {
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
    std::vector<int32_t> expected = OracleChoices(races);
    std::fill(expected.begin() + in_use, expected.end(), kUntouched);
    EXPECT_EQ(tokens.Read(), expected);
  }
}

// The survivors of peaked rows are in a shortlist, which chooses the token; those of flat rows are
// not. Launches of any number of rows share the scratch memory.
TEST_F(DeviceChooseTest, PeakedAndFlatRowsCanShareScratch) {
  const int capacity = 6, vocabulary = 20000;
  const OnDevice<char> scratch(ChooseScratchBytes(capacity), 0);
  const auto races_of = [&](int rows, float scale, uint64_t seed) {
    std::vector<ChoiceRule> rules;
    for (int row = 0; row < rows; ++row) {
      rules.push_back({1, seed, row, row % 3 == 2 ? 40 : 0, row % 2 == 0 ? 0.9f : 1.0f});
    }
    return RandomRaces(rules, vocabulary, static_cast<uint32_t>(seed), scale);
  };
  for (const auto& [rows, scale] :
       {std::pair{6, 4.0f}, {3, 0.1f}, {6, 0.1f}, {2, 4.0f}, {6, 3.0f}}) {
    const Races races = races_of(rows, scale, 40 + rows);
    const OnDevice<float> logits(races.logits);
    const OnDevice<ChoiceRule> rules(races.rules);
    const OnDevice<int32_t> used(1, rows), tokens(rows, kUntouched);
    Choose(
        {used.data(), logits.data(), rules.data(), tokens.data(), scratch.data(), rows, vocabulary},
        *stream_);
    Finish();
    EXPECT_EQ(tokens.Read(), OracleChoices(races)) << rows << " rows, scale " << scale;
  }
}

}  // namespace
}  // namespace bastion::kernels::cuda
