#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/kernel_test_support.h"

namespace bastion::kernels {
namespace {

// Returns argmax_x (logit(x) / T + g(x)). Computes the noise of every token.
int32_t SlowChoice(const float* logits, int vocabulary, const ChoiceRule& rule) {
  int32_t best = -1;
  float highest = -std::numeric_limits<float>::infinity();
  for (int32_t x = 0; x < vocabulary; ++x) {
    const float value = rule.temperature > 0 ? logits[x] / rule.temperature +
                                                   KeyedGumbel(rule.seed, rule.position, x)
                                             : logits[x];
    if (value > highest) {
      highest = value;
      best = x;
    }
  }
  return best;
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

TEST(ChooseTest, SkippingNoiseDoesNotChangeTheChoice) {
  ForEachChoiceCase([](const ChoiceCase& c) {
    const int rows = static_cast<int>(c.rules.size());
    std::vector<int32_t> expected, actual(rows);
    for (int r = 0; r < rows; ++r) {
      expected.push_back(
          SlowChoice(c.logits.data() + size_t(r) * c.vocabulary, c.vocabulary, c.rules[r]));
    }
    ThreadPool pool(2);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().choose({c.logits.data(), c.rules.data(), actual.data(), rows, c.vocabulary},
                          pool);
      EXPECT_EQ(actual, expected) << name << ": V " << c.vocabulary << ", T " << c.temperature;
    });
  });
}

TEST(ChooseTest, TopKKeepsAllTiesAndTopPKeepsTheLowerIds) {
  const std::vector<float> logits = {1, 3, 3, 3, 0};
  std::set<int32_t> by_k, by_p;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    by_k.insert(ChooseOne(logits, {1, seed, 0, /*top_k=*/2}));
    by_p.insert(ChooseOne(logits, {1, seed, 0, 0, /*top_p=*/0.5f}));
  }
  EXPECT_EQ(by_k, (std::set<int32_t>{1, 2, 3}));
  EXPECT_EQ(by_p, (std::set<int32_t>{1, 2}));
}

TEST(ChooseTest, MaskedTokensAreNeverChosen) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  std::vector<float> logits(100, kMasked);
  logits[57] = -3.0f;
  ForEachInstructionSet([&](const char* name) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      EXPECT_EQ(ChooseOne(logits, {2.0f, seed, 4}), 57) << name;
      EXPECT_EQ(ChooseOne(logits, {2.0f, seed, 4, 10, 0.9f, 0.1f}), 57) << name;
    }
  });
}

TEST(ChooseTest, RowsWithOnlyNansOrMaskedLogitsGiveNoToken) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    const std::vector<float> logits(64, value);
    for (const ChoiceRule& rule :
         {ChoiceRule{}, ChoiceRule{1, 0, 0}, ChoiceRule{1, 0, 0, 5, 0.9f}}) {
      EXPECT_EQ(ChooseOne(logits, rule), -1);
    }
  }
}

TEST(TopKTest, SortsByDescendingLogitThenByAscendingId) {
  constexpr int kVocabulary = 301;
  ThreadPool pool(1);
  std::vector<float> logits = RandomFloats(kVocabulary, 10, 3.0f);
  for (int x = 100; x < 140; ++x) logits[x] = 9.0f;
  std::vector<int32_t> expected(kVocabulary), actual(kVocabulary);
  std::iota(expected.begin(), expected.end(), 0);
  std::stable_sort(expected.begin(), expected.end(),
                   [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  for (const int candidates : {1, 8, 64, kVocabulary}) {
    std::vector<float> log_probs(candidates);
    actual.resize(candidates);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().top_k(
          {logits.data(), nullptr, actual.data(), log_probs.data(), 1, kVocabulary, candidates},
          pool);
      EXPECT_TRUE(std::equal(actual.begin(), actual.end(), expected.begin())) << name;
      for (int k = 1; k < candidates; ++k) {
        EXPECT_NEAR(log_probs[k] - log_probs[0], logits[actual[k]] - logits[actual[0]], 1e-5);
      }
      if (candidates < kVocabulary) return;
      double sum = 0;
      for (const float log_prob : log_probs) sum += std::exp(double{log_prob});
      EXPECT_NEAR(sum, 1, 1e-5) << name;
    });
  }
}

TEST(TopKTest, TheBestCoupledCandidateIsTheKeyedChoice) {
  ThreadPool pool(2);
  const int rows = 30, candidates = 16;
  for (const int vocabulary : {19, 1003, 4096}) {
    const std::vector<float> logits = RandomFloats(size_t(rows) * vocabulary, 14, 3.0f);
    const std::vector<ChoiceRule> rules = CoupledRules(rows);
    std::vector<int32_t> actual(rows * candidates), chosen(rows);
    std::vector<float> log_probs(rows * candidates);
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().choose({logits.data(), rules.data(), chosen.data(), rows, vocabulary}, pool);
      CpuBackend().top_k({logits.data(), rules.data(), actual.data(), log_probs.data(), rows,
                          vocabulary, candidates},
                         pool);
      for (int r = 0; r < rows; ++r) EXPECT_EQ(actual[r * candidates], chosen[r]) << name;
    });
  }
}

// The columns are some of the tokens. Their candidates are those of the whole row, without the
// other tokens and normalized again.
TEST(TopKTest, ColumnsOfSomeTokensAreRankedLikeTheWholeRow) {
  ThreadPool pool(2);
  const int rows = 6, whole = 1003, columns = 301;
  std::vector<int32_t> ids;
  for (int x = 0; x < columns; ++x) ids.push_back(x < 50 ? x : 50 + (x - 50) * 7 / 2);
  const std::vector<float> all = TiedFloats(size_t(rows) * whole, 15);
  const std::vector<float> logits = ColumnsOf(all, whole, ids);
  std::vector<ChoiceRule> rules(rows);  // Without truncation, which depends on the other tokens.
  for (int r = 0; r < rows; ++r) rules[r] = {r % 3 == 0 ? 0.0f : 0.7f, 99, 1000 + r};
  std::vector<int32_t> expected(rows * whole), actual(rows * columns);
  std::vector<float> expected_log(rows * whole), actual_log(rows * columns);
  for (const ChoiceRule* coupling :
       {static_cast<const ChoiceRule*>(nullptr), std::as_const(rules).data()}) {
    ForEachInstructionSet([&](const char* name) {
      CpuBackend().top_k(
          {all.data(), coupling, expected.data(), expected_log.data(), rows, whole, whole}, pool);
      CpuBackend().top_k({logits.data(), coupling, actual.data(), actual_log.data(), rows, columns,
                          columns, ids.data()},
                         pool);
      for (int r = 0; r < rows; ++r) {
        std::vector<std::pair<int32_t, double>> kept;
        double sum = 0;
        for (int k = r * whole; k < (r + 1) * whole; ++k) {
          if (!std::binary_search(ids.begin(), ids.end(), expected[k])) continue;
          kept.emplace_back(expected[k], expected_log[k]);
          sum += std::exp(double{expected_log[k]});
        }
        ASSERT_EQ(kept.size(), ids.size());
        for (int k = 0; k < columns; ++k) {
          ASSERT_EQ(actual[r * columns + k], kept[k].first) << name << ": row " << r << ", " << k;
          ASSERT_NEAR(actual_log[r * columns + k], kept[k].second - std::log(sum), 1e-4) << name;
        }
      }
    });
  }
}

TEST(TopKTest, IdsOfAllTokensChangeNoBit) {
  ThreadPool pool(1);
  const int rows = 12, vocabulary = 1003, candidates = 40;
  const std::vector<float> logits = RandomFloats(size_t(rows) * vocabulary, 16, 3.0f);
  const std::vector<ChoiceRule> rules = CoupledRules(rows);
  std::vector<int32_t> ids(vocabulary), expected(rows * candidates), actual(rows * candidates);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> expected_log(rows * candidates), actual_log(rows * candidates);
  ForEachInstructionSet([&](const char* name) {
    CpuBackend().top_k({logits.data(), rules.data(), expected.data(), expected_log.data(), rows,
                        vocabulary, candidates},
                       pool);
    CpuBackend().top_k({logits.data(), rules.data(), actual.data(), actual_log.data(), rows,
                        vocabulary, candidates, ids.data()},
                       pool);
    EXPECT_EQ(actual, expected) << name;
    EXPECT_TRUE(SameBits(actual_log.data(), expected_log.data(), actual_log.size())) << name;
  });
}

TEST(TopKTest, ARowOfNansGivesInvalidCandidates) {
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
