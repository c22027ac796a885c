#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/torch/compared_backends.h"

namespace bastion::kernels {
namespace {

// Expects that every backend chooses like the oracle. There is one rule per row of `logits`.
void ExpectOracleChoices(const std::vector<float>& logits, const std::vector<ChoiceRule>& rules,
                         const std::string& what) {
  ThreadPool pool(2);
  const int rows = static_cast<int>(rules.size());
  const int vocabulary = static_cast<int>(logits.size()) / rows;
  std::vector<int32_t> expected(rows), actual(rows);
  ChooseArgs args = {logits.data(), rules.data(), expected.data(), rows, vocabulary};
  TorchOracle().choose(args, pool);
  args.tokens = actual.data();
  ForEachComparedBackend([&](const Backend& backend, const char* name) {
    backend.choose(args, pool);
    EXPECT_EQ(actual, expected) << name << ": " << what;
  });
}

TEST(ChooseTest, AgreesWithTheOracle) {
  ForEachChoiceCase([](const ChoiceCase& c) {
    ExpectOracleChoices(c.logits, c.rules, absl::StrCat("V ", c.vocabulary, ", T ", c.temperature));
  });
}

TEST(ChooseTest, TruncatedChoicesAgreeWithTheOracle) {
  const int rows = 60;
  std::vector<ChoiceRule> truncating_rules;
  for (const int top_k : {0, 1, 7, 5000}) {
    for (const float top_p : {1.0f, 0.95f, 0.5f, 1e-6f}) {
      for (const float min_p : {0.0f, 0.02f, 1.0f})
        truncating_rules.push_back({1, 0, 0, top_k, top_p, min_p});
    }
  }
  for (const int vocabulary : {5, 1003, 4096}) {
    std::vector<float> logits = RandomFloats(size_t(rows) * vocabulary, 12 + vocabulary, 3);
    for (float& logit : logits) logit = std::round(logit * 4) / 4;  // Ties.
    for (const float temperature : {0.3f, 1.0f, 5.0f}) {
      for (ChoiceRule rule : truncating_rules) {
        rule.temperature = temperature;
        std::vector<ChoiceRule> rules(rows, rule);
        for (int r = 0; r < rows; ++r) rules[r].seed = r;
        ExpectOracleChoices(
            logits, rules,
            absl::StrCat("V ", vocabulary, ", T ", temperature, ", top-k ", rule.top_k, ", top-p ",
                         rule.top_p, ", min-p ", rule.min_p));
      }
    }
  }
}

TEST(TopKTest, AgreesWithTheOracleOnTiesAndWholeVocabularies) {
  ThreadPool pool(2);
  for (const int candidates : {1, 8, 64, 301}) {
    const int rows = 3, vocabulary = 301;
    std::vector<float> logits = RandomFloats(size_t(rows) * vocabulary, 10, 3.0f);
    for (int x = 100; x < 140; ++x) logits[x] = 9.0f;
    std::vector<int32_t> expected(rows * candidates), actual(rows * candidates);
    std::vector<float> expected_log(rows * candidates), actual_log(rows * candidates);
    TorchOracle().top_k({logits.data(), nullptr, expected.data(), expected_log.data(), rows,
                         vocabulary, candidates},
                        pool);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      backend.top_k(
          {logits.data(), nullptr, actual.data(), actual_log.data(), rows, vocabulary, candidates},
          pool);
      EXPECT_EQ(actual, expected) << name << " K " << candidates;
      ExpectNear(actual_log, expected_log, name);
    });
  }
}

TEST(TopKTest, CoupledCandidatesAreRankedLikeTheKeyedChoice) {
  ThreadPool pool(2);
  const int rows = 30, candidates = 16;
  for (const int vocabulary : {19, 1003, 4096}) {
    const std::vector<float> logits = RandomFloats(size_t(rows) * vocabulary, 14, 3.0f);
    const std::vector<ChoiceRule> rules = CoupledRules(rows);
    std::vector<int32_t> expected(rows * candidates), actual(rows * candidates), chosen(rows);
    std::vector<float> expected_log(rows * candidates), actual_log(rows * candidates);
    TorchOracle().top_k({logits.data(), rules.data(), expected.data(), expected_log.data(), rows,
                         vocabulary, candidates},
                        pool);
    CpuBackend().choose({logits.data(), rules.data(), chosen.data(), rows, vocabulary}, pool);
    ForEachComparedBackend([&](const Backend& backend, const char* name) {
      backend.top_k({logits.data(), rules.data(), actual.data(), actual_log.data(), rows,
                     vocabulary, candidates},
                    pool);
      EXPECT_EQ(actual, expected) << name;
      ExpectNear(actual_log, expected_log, name);
      for (int r = 0; r < rows; ++r) EXPECT_EQ(actual[r * candidates], chosen[r]) << name;
    });
  }
}

TEST(TopKTest, ColumnsOfSomeTokensAgreeWithTheOracle) {
  ThreadPool pool(2);
  const int rows = 12, candidates = 40;
  for (const int columns : {40, 129, 1000}) {
    std::vector<int32_t> ids;
    for (int x = 0; x < columns; ++x) ids.push_back(x < 20 ? x : 20 + (x - 20) * 7 / 2);
    const std::vector<float> logits = RandomFloats(size_t(rows) * columns, 15, 3.0f);
    const std::vector<ChoiceRule> rules = CoupledRules(rows);
    std::vector<int32_t> expected(rows * candidates), actual(rows * candidates);
    std::vector<float> expected_log(rows * candidates), actual_log(rows * candidates);
    for (const ChoiceRule* coupling : {static_cast<const ChoiceRule*>(nullptr), rules.data()}) {
      TorchOracle().top_k({logits.data(), coupling, expected.data(), expected_log.data(), rows,
                           columns, candidates, ids.data()},
                          pool);
      ForEachComparedBackend([&](const Backend& backend, const char* name) {
        backend.top_k({logits.data(), coupling, actual.data(), actual_log.data(), rows, columns,
                       candidates, ids.data()},
                      pool);
        EXPECT_EQ(actual, expected) << name << ": V " << columns;
        ExpectNear(actual_log, expected_log, name);
      });
    }
  }
}

}  // namespace
}  // namespace bastion::kernels
