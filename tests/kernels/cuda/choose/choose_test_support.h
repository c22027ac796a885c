// Computes choices and candidates on the device and with the oracle, for tests.
#ifndef BASTION_TESTS_KERNELS_CUDA_CHOOSE_CHOOSE_TEST_SUPPORT_H_
#define BASTION_TESTS_KERNELS_CUDA_CHOOSE_CHOOSE_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/device_test_support.h"
#include "tests/kernels/oracle.h"

namespace bastion::kernels::cuda {

inline constexpr int32_t kUntouched = -77;  // Output that was not written.
inline constexpr int kPadding = 2;          // Padding rows after the used ones.

// Rows of logits on the host, with one rule per row.
struct Races {
  std::vector<float> logits;      // [R, V]
  std::vector<ChoiceRule> rules;  // [R]
  std::vector<int32_t> ids = {};  // [V], or empty: column i is token i. For candidates only.

  [[nodiscard]] int rows() const { return static_cast<int>(rules.size()); }
  [[nodiscard]] int vocabulary() const { return static_cast<int>(logits.size()) / rows(); }
  [[nodiscard]] std::vector<float> padded_logits() const {
    std::vector<float> all = logits;
    all.resize(logits.size() + size_t{kPadding} * vocabulary(), 9.0f);
    return all;
  }
  [[nodiscard]] std::vector<ChoiceRule> padded_rules() const {
    std::vector<ChoiceRule> all = rules;
    all.resize(rules.size() + kPadding, {1, 1, 1, 1, 0.5f, 0.5f});
    return all;
  }
};

inline std::vector<int32_t> OracleChoices(const Races& races) {
  ThreadPool pool(1);
  std::vector<int32_t> tokens(races.rows());
  Oracle().choose(
      {races.logits.data(), races.rules.data(), tokens.data(), races.rows(), races.vocabulary()},
      pool);
  return tokens;
}

// The device's choices. Expects that padding rows are not written, and that `times` launches with
// the same scratch memory choose the same tokens.
inline std::vector<int32_t> DeviceChoices(const Races& races, Stream& stream, int times = 1) {
  const int rows = races.rows() + kPadding;
  const OnDevice<float> logits(races.padded_logits());
  const OnDevice<ChoiceRule> rules(races.padded_rules());
  const OnDevice<int32_t> used(1, races.rows());
  const OnDevice<char> scratch(ChooseScratchBytes(rows), 0);
  std::vector<int32_t> result;
  for (int launch = 0; launch < times; ++launch) {
    const OnDevice<int32_t> tokens(rows, kUntouched);
    Choose({used.data(), logits.data(), rules.data(), tokens.data(), scratch.data(), rows,
            races.vocabulary()},
           stream);
    EXPECT_TRUE(stream.Synchronize().ok());
    std::vector<int32_t> all = tokens.Read();
    for (int r = races.rows(); r < rows; ++r) EXPECT_EQ(all[r], kUntouched) << "padding row " << r;
    all.resize(races.rows());
    EXPECT_TRUE(launch == 0 || all == result) << "launch " << launch;
    result = all;
  }
  return result;
}

struct Candidates {
  std::vector<int32_t> tokens;   // [R, K]
  std::vector<float> log_probs;  // [R, K]
};

// Returns `rules`, or null (not coupled) if all temperatures are 0.
inline const ChoiceRule* CouplingOf(const Races& races, const ChoiceRule* rules) {
  const bool coupled = std::any_of(races.rules.begin(), races.rules.end(),
                                   [](const ChoiceRule& rule) { return rule.temperature > 0; });
  return coupled ? rules : nullptr;
}

inline Candidates OracleCandidates(const Races& races, int count) {
  ThreadPool pool(1);
  Candidates found = {std::vector<int32_t>(size_t(races.rows()) * count),
                      std::vector<float>(size_t(races.rows()) * count)};
  Oracle().top_k({races.logits.data(), CouplingOf(races, races.rules.data()), found.tokens.data(),
                  found.log_probs.data(), races.rows(), races.vocabulary(), count,
                  races.ids.empty() ? nullptr : races.ids.data()},
                 pool);
  return found;
}

// Launches TopK for the rows of `races` and some padding rows, any number of times with the same
// scratch memory.
class DeviceTopK {
 public:
  DeviceTopK(const Races& races, int count)
      : races_(races),
        count_(count),
        rows_(races.rows() + kPadding),
        logits_(races.padded_logits()),
        rules_(races.padded_rules()),
        used_(1, races.rows()),
        ids_(races.ids.empty() ? std::vector<int32_t>(1) : races.ids),
        scratch_(TopKScratchBytes(rows_, races.vocabulary()), 0) {}

  Candidates Launch(Stream& stream) const {
    const OnDevice<int32_t> tokens(size_t(rows_) * count_, kUntouched);
    const OnDevice<float> log_probs(size_t(rows_) * count_, 7.0f);
    TopK({used_.data(), logits_.data(), CouplingOf(races_, rules_.data()), tokens.data(),
          log_probs.data(), scratch_.data(), rows_, races_.vocabulary(), count_,
          races_.ids.empty() ? nullptr : ids_.data()},
         stream);
    EXPECT_TRUE(stream.Synchronize().ok());
    Candidates found = {tokens.Read(), log_probs.Read()};
    const size_t end = size_t(races_.rows()) * count_;
    for (size_t i = end; i < found.tokens.size(); ++i) {
      EXPECT_EQ(found.tokens[i], kUntouched);
      EXPECT_EQ(found.log_probs[i], 7.0f);
    }
    found.tokens.resize(end);
    found.log_probs.resize(end);
    return found;
  }

 private:
  const Races races_;
  const int count_, rows_;
  const OnDevice<float> logits_;
  const OnDevice<ChoiceRule> rules_;
  const OnDevice<int32_t> used_;
  const OnDevice<int32_t> ids_;
  const OnDevice<char> scratch_;
};

inline Candidates DeviceCandidates(const Races& races, int count, Stream& stream) {
  return DeviceTopK(races, count).Launch(stream);
}

// Expects that launches that share scratch memory give the same bits.
inline void ExpectSameCandidatesOverLaunches(const Races& races, int count, Stream& stream) {
  const DeviceTopK top_k(races, count);
  const Candidates first = top_k.Launch(stream);
  for (int launch = 1; launch < 3; ++launch) {
    const Candidates again = top_k.Launch(stream);
    EXPECT_EQ(again.tokens, first.tokens) << "launch " << launch;
    EXPECT_TRUE(SameBits(again.log_probs.data(), first.log_probs.data(), first.log_probs.size()))
        << "launch " << launch;
  }
}

// Rules with combinations of top-k, top-p and min-p, each at one of three temperatures. `turn`
// rotates the temperatures.
inline std::vector<ChoiceRule> TruncatingRules(int vocabulary, int turn = 0) {
  constexpr float kTemperatures[] = {0.3f, 1.0f, 1.5f};
  std::vector<ChoiceRule> rules;
  for (const int top_k : {0, 1, 5, 1500, vocabulary}) {
    for (const float top_p : {1.0f, 0.9f, 0.3f}) {
      for (const float min_p : {0.0f, 0.05f}) {
        const auto number = static_cast<int32_t>(rules.size());
        rules.push_back({kTemperatures[(number + number / 6 + turn) % 3],
                         0x123456789ABCDEFull * number, 5 * turn, top_k, top_p, min_p});
      }
    }
  }
  return rules;
}

// Random logits for `rules`. `grid` > 0: logits are multiples of it, so that many tie.
inline Races RandomRaces(const std::vector<ChoiceRule>& rules, int vocabulary, uint32_t seed,
                         float scale = 3.0f, float grid = 0.0f) {
  Races races = {RandomFloats(rules.size() * vocabulary, seed, scale), rules};
  for (float& logit : races.logits) {
    if (grid > 0) logit = std::round(logit / grid) * grid;
  }
  return races;
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_CHOOSE_CHOOSE_TEST_SUPPORT_H_
