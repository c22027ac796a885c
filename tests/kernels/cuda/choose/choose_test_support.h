// Computes choices and candidates on the device and with the reference, for tests.
#ifndef BASTION_TESTS_KERNELS_CUDA_CHOOSE_CHOOSE_TEST_SUPPORT_H_
#define BASTION_TESTS_KERNELS_CUDA_CHOOSE_CHOOSE_TEST_SUPPORT_H_

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/backend/backend.h"
#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {

inline constexpr int32_t kUntouched = -77;  // Initial value of outputs.
inline constexpr int kPadding = 2;          // Unused rows after the used ones.

// Rows of logits on the host, with one rule per row.
struct Races {
  std::vector<float> logits;      // [R, V]
  std::vector<ChoiceRule> rules;  // [R]

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

inline std::vector<int32_t> ReferenceChoices(const Races& races) {
  ThreadPool pool(1);
  std::vector<int32_t> tokens(races.rows());
  ReferenceBackend().choose(
      {races.logits.data(), races.rules.data(), tokens.data(), races.rows(), races.vocabulary()},
      pool);
  return tokens;
}

// The device's choices, computed with padding rows after the used rows. Launches `times` times with
// the same scratch and expects the same result each time.
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

// Returns null (not coupled) if all rules have temperature 0.
inline const ChoiceRule* CouplingOf(const Races& races, const ChoiceRule* rules) {
  const bool coupled = std::any_of(races.rules.begin(), races.rules.end(),
                                   [](const ChoiceRule& rule) { return rule.temperature > 0; });
  return coupled ? rules : nullptr;
}

inline Candidates ReferenceCandidates(const Races& races, int count) {
  ThreadPool pool(1);
  Candidates found = {std::vector<int32_t>(size_t(races.rows()) * count),
                      std::vector<float>(size_t(races.rows()) * count)};
  ReferenceBackend().top_k(
      {races.logits.data(), CouplingOf(races, races.rules.data()), found.tokens.data(),
       found.log_probs.data(), races.rows(), races.vocabulary(), count},
      pool);
  return found;
}

// The device's candidates. Launches `times` times with the same scratch and expects the same bits
// each time.
inline Candidates DeviceCandidates(const Races& races, int count, Stream& stream, int times = 1) {
  const int rows = races.rows() + kPadding;
  const OnDevice<float> logits(races.padded_logits());
  const OnDevice<ChoiceRule> rules(races.padded_rules());
  const OnDevice<int32_t> used(1, races.rows());
  const OnDevice<char> scratch(TopKScratchBytes(rows, races.vocabulary()), 0);
  Candidates result;
  for (int launch = 0; launch < times; ++launch) {
    const OnDevice<int32_t> tokens(size_t(rows) * count, kUntouched);
    const OnDevice<float> log_probs(size_t(rows) * count, 7.0f);
    TopK({used.data(), logits.data(), CouplingOf(races, rules.data()), tokens.data(),
          log_probs.data(), scratch.data(), rows, races.vocabulary(), count},
         stream);
    EXPECT_TRUE(stream.Synchronize().ok());
    Candidates all = {tokens.Read(), log_probs.Read()};
    const size_t end = size_t(races.rows()) * count;
    for (size_t i = end; i < all.tokens.size(); ++i) {
      EXPECT_EQ(all.tokens[i], kUntouched);
      EXPECT_EQ(all.log_probs[i], 7.0f);
    }
    all.tokens.resize(end);
    all.log_probs.resize(end);
    EXPECT_TRUE(launch == 0 || (all.tokens == result.tokens &&
                                SameBits(all.log_probs.data(), result.log_probs.data(), end)))
        << "launch " << launch;
    result = all;
  }
  return result;
}

// Rules with all combinations of several values of top-k, top-p and min-p, each with one of three
// temperatures. Another `turn` combines them with other temperatures.
inline std::vector<ChoiceRule> Cuts(int vocabulary, int turn = 0) {
  constexpr float kTemperatures[] = {0.3f, 1.0f, 1.5f};
  std::vector<ChoiceRule> cuts;
  for (const int top_k : {0, 1, 5, 1500, vocabulary}) {
    for (const float top_p : {1.0f, 0.9f, 0.3f}) {
      for (const float min_p : {0.0f, 0.05f}) {
        const auto number = static_cast<int32_t>(cuts.size());
        cuts.push_back({kTemperatures[(number + number / 6 + turn) % 3],
                        0x123456789ABCDEFull * number, 5 * turn, top_k, top_p, min_p});
      }
    }
  }
  return cuts;
}

// Random logits for `rules`. If `grid` > 0, logits are multiples of it, so that there are many
// ties.
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
