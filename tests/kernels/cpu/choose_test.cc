#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {
namespace {

// Expects that the vector kernels choose the same tokens as the reference, for each row of `logits`
// with its rule.
void ExpectReferenceChoices(const std::vector<float>& logits, const std::vector<ChoiceRule>& rules,
                            const std::string& what) {
  ThreadPool pool(2);
  const int rows = static_cast<int>(rules.size());
  const int vocabulary = static_cast<int>(logits.size()) / rows;
  std::vector<int32_t> expected(rows), actual(rows);
  ChooseArgs args = {logits.data(), rules.data(), expected.data(), rows, vocabulary};
  ReferenceBackend().choose(args, pool);
  args.tokens = actual.data();
  ForEachInstructionSet([&](const char* name) {
    CpuBackend().choose(args, pool);
    EXPECT_EQ(actual, expected) << name << ": " << what;
  });
}

int32_t ChooseOne(const std::vector<float>& logits, const ChoiceRule& rule) {
  ThreadPool pool(1);
  int32_t token = -5;
  CpuBackend().choose({logits.data(), &rule, &token, 1, static_cast<int>(logits.size())}, pool);
  return token;
}

TEST(ChooseTest, TiesGoToTheLowestId) {
  std::vector<float> logits = RandomFloats(203, 9, 2.0f);
  logits[40] = logits[41] = logits[200] = 50.0f;
  ForEachInstructionSet([&](const char* name) {
    EXPECT_EQ(ChooseOne(logits, {0.0f, 1, 1}), 40) << name;
  });
}

TEST(ChooseTest, AgreesWithTheReferenceThatComputesAllNoise) {
  const int rows = 40;
  for (const int vocabulary : {5, 64, 203, 1003, 4096}) {
    for (const float temperature : {0.0f, 0.01f, 0.3f, 1.0f, 3.0f, 1000.0f}) {
      const std::vector<float> logits =
          RandomFloats(size_t(rows) * vocabulary, 11 + vocabulary, temperature < 0.1f ? 300 : 3);
      std::vector<ChoiceRule> rules;
      for (int r = 0; r < rows; ++r) rules.push_back({temperature, 0x123456789ABCDEFull, 17 + r});
      ExpectReferenceChoices(logits, rules, absl::StrCat("V ", vocabulary, ", T ", temperature));
    }
  }
}

TEST(ChooseTest, TruncatedChoicesAgreeWithTheReference) {
  const int rows = 60;
  std::vector<ChoiceRule> cuts;
  for (const int top_k : {0, 1, 7, 5000}) {
    for (const float top_p : {1.0f, 0.95f, 0.5f, 1e-6f}) {
      for (const float min_p : {0.0f, 0.02f, 1.0f}) cuts.push_back({1, 0, 0, top_k, top_p, min_p});
    }
  }
  for (const int vocabulary : {5, 1003, 4096}) {
    std::vector<float> logits = RandomFloats(size_t(rows) * vocabulary, 12 + vocabulary, 3);
    for (float& logit : logits) logit = std::round(logit * 4) / 4;  // Ties.
    for (const float temperature : {0.3f, 1.0f, 5.0f}) {
      for (ChoiceRule rule : cuts) {
        rule.temperature = temperature;
        std::vector<ChoiceRule> rules(rows, rule);
        for (int r = 0; r < rows; ++r) rules[r].seed = r;
        ExpectReferenceChoices(
            logits, rules,
            absl::StrCat("V ", vocabulary, ", T ", temperature, ", top-k ", rule.top_k, ", top-p ",
                         rule.top_p, ", min-p ", rule.min_p));
      }
    }
  }
}

TEST(ChooseTest, TopKKeepsTiesAndTopPKeepsLowerIds) {
  const std::vector<float> logits = {1, 3, 3, 3, 0};
  std::set<int32_t> by_k, by_p;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    by_k.insert(ChooseOne(logits, {1, seed, 0, /*top_k=*/2}));
    by_p.insert(ChooseOne(logits, {1, seed, 0, 0, /*top_p=*/0.5f}));
  }
  EXPECT_EQ(by_k, (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(by_p, (std::set<int32_t>{1, 2}));
}

TEST(ChooseTest, TokensWithInfiniteNegativeLogitsAreNeverChosen) {
  constexpr float kOut = -std::numeric_limits<float>::infinity();
  std::vector<float> logits(100, kOut);
  logits[57] = -3.0f;
  ForEachInstructionSet([&](const char* name) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      EXPECT_EQ(ChooseOne(logits, {2.0f, seed, 4}), 57) << name;
      EXPECT_EQ(ChooseOne(logits, {2.0f, seed, 4, 10, 0.9f, 0.1f}), 57) << name;
    }
  });
}

TEST(ChooseTest, ARowWithoutFiniteLogitsGivesNoToken) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> logits(64, value);
    for (const ChoiceRule& rule : {ChoiceRule{1, 0, 0}, ChoiceRule{1, 0, 0, 5, 0.9f}}) {
      EXPECT_EQ(ChooseOne(logits, rule), -1);
    }
  }
  EXPECT_EQ(ChooseOne(std::vector<float>(64, std::numeric_limits<float>::quiet_NaN()), {}), -1);
}

TEST(TopKTest, AgreesWithTheReferenceWithTiesAndForTheWholeVocabulary) {
  ThreadPool pool(2);
  for (const int candidates : {1, 8, 64, 301}) {
    const int rows = 3, vocabulary = 301;
    std::vector<float> logits = RandomFloats(size_t(rows) * vocabulary, 10, 3.0f);
    for (int x = 100; x < 140; ++x) logits[x] = 9.0f;
    std::vector<int32_t> expected(rows * candidates), actual(rows * candidates);
    std::vector<float> expected_log(rows * candidates), actual_log(rows * candidates);
    ReferenceBackend().top_k({logits.data(), nullptr, expected.data(), expected_log.data(), rows,
                              vocabulary, candidates},
                             pool);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().top_k(
          {logits.data(), nullptr, actual.data(), actual_log.data(), rows, vocabulary, candidates},
          pool);
      EXPECT_EQ(actual, expected) << name << " K " << candidates;
      ExpectNear(actual_log, expected_log, name);
    });
  }
}

TEST(TopKTest, CoupledRanksTheValuesOfTheKeyedChoice) {
  ThreadPool pool(2);
  const int rows = 30, candidates = 16;
  for (const int vocabulary : {19, 1003, 4096}) {
    const std::vector<float> logits = RandomFloats(size_t(rows) * vocabulary, 14, 3.0f);
    std::vector<ChoiceRule> rules;
    for (int r = 0; r < rows; ++r) rules.push_back({r % 2 ? 0.7f : 1.3f, 99, 1000 + r});
    for (int r = 0; r < rows; r += 3) rules[r].top_p = 0.8f;
    for (int r = 1; r < rows; r += 3) rules[r].top_k = 9;
    std::vector<int32_t> expected(rows * candidates), actual(rows * candidates), chosen(rows);
    std::vector<float> expected_log(rows * candidates), actual_log(rows * candidates);
    ReferenceBackend().top_k({logits.data(), rules.data(), expected.data(), expected_log.data(),
                              rows, vocabulary, candidates},
                             pool);
    CpuBackend().choose({logits.data(), rules.data(), chosen.data(), rows, vocabulary}, pool);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().top_k({logits.data(), rules.data(), actual.data(), actual_log.data(), rows,
                          vocabulary, candidates},
                         pool);
      EXPECT_EQ(actual, expected) << name;
      ExpectNear(actual_log, expected_log, name);
      for (int r = 0; r < rows; ++r) EXPECT_EQ(actual[r * candidates], chosen[r]) << name;
    });
  }
}

TEST(TopKTest, NansAreMarkedAndNotRanked) {
  ThreadPool pool(1);
  const std::vector<float> logits(64, std::numeric_limits<float>::quiet_NaN());
  int32_t tokens[4];
  float log_probs[4];
  CpuBackend().top_k({logits.data(), nullptr, tokens, log_probs, 1, 64, 4}, pool);
  EXPECT_EQ(tokens[0], -1);
  EXPECT_TRUE(std::isnan(log_probs[0]));
}

}  // namespace
}  // namespace bastion::kernels
