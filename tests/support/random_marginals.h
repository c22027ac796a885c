// Random marginals for tests, optionally with ties or zero probabilities. Header-only.
#ifndef BASTION_TESTS_SUPPORT_RANDOM_MARGINALS_H_
#define BASTION_TESTS_SUPPORT_RANDOM_MARGINALS_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "common/stages/marginals.h"

namespace bastion::testing {

using Probabilities = std::vector<std::vector<double>>;  // [P, K], descending within a position.

enum class EdgeCase { kNone, kTies, kZeroTails };

// Marginals [P, K] with the given probabilities; token id = 100·position + rank.
// REQUIRES: each position is sorted by descending probability.
inline Marginals MarginalsOf(const Probabilities& probabilities) {
  Marginals marginals;
  marginals.positions = static_cast<int>(probabilities.size());
  marginals.candidates = probabilities.empty() ? 0 : static_cast<int>(probabilities[0].size());
  for (int p = 0; p < marginals.positions; ++p) {
    for (int r = 0; r < marginals.candidates; ++r) {
      marginals.tokens.push_back(100 * p + r);
      marginals.log_probs.push_back(static_cast<float>(std::log(probabilities[p][r])));
    }
  }
  return marginals;
}

// The top candidate has probability `top`. Each further candidate gets the fraction `share` of the
// remaining mass.
inline Probabilities Ladder(int positions, int candidates, double top, double share = 0.5) {
  Probabilities probabilities(positions);
  for (std::vector<double>& position : probabilities) {
    double left = 1 - top;
    position.push_back(top);
    for (int r = 1; r < candidates; ++r) {
      position.push_back(std::min(position.back(), left * share));
      left -= position.back();
    }
  }
  return probabilities;
}

// Random marginals [P, K]. kTies draws from two values. kZeroTails sets the probabilities from a
// random rank on to zero, separately for each position; that may be all of them.
// `sharpness` > 1 gives the first ranks more probability.
inline Marginals RandomMarginals(std::mt19937& random, int positions, int candidates,
                                 EdgeCase edge_case = EdgeCase::kNone, double sharpness = 1.0) {
  Probabilities probabilities(positions, std::vector<double>(candidates));
  for (std::vector<double>& position : probabilities) {
    double sum = 0;
    for (double& value : position) {
      value = edge_case == EdgeCase::kTies
                  ? static_cast<double>(1 + random() % 2)
                  : std::pow(std::uniform_real_distribution<>(0.01, 1.0)(random), sharpness);
      sum += value;
    }
    for (double& value : position) value /= sum;
    std::sort(position.begin(), position.end(), std::greater<>());
    if (edge_case == EdgeCase::kZeroTails) {
      const auto kept = static_cast<std::ptrdiff_t>(random() % (candidates + 1));
      std::fill(position.begin() + kept, position.end(), 0.0);
    }
  }
  return MarginalsOf(probabilities);
}

// Adds random pair scores within `scale` of 0. kTies draws from two values.
inline void AddPairScores(std::mt19937& random, float scale, Marginals* marginals,
                          EdgeCase edge_case = EdgeCase::kNone) {
  const int candidates = marginals->candidates;
  for (int p = 0; p < marginals->positions; ++p) {
    for (int pair = 0; pair < candidates * candidates; ++pair) {
      const float drawn = edge_case == EdgeCase::kTies
                              ? scale * static_cast<float>(random() % 2)
                              : std::uniform_real_distribution<float>(-scale, scale)(random);
      marginals->pair_scores.push_back(p == 0 && pair >= candidates ? 0.0f : drawn);
    }
  }
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_RANDOM_MARGINALS_H_
