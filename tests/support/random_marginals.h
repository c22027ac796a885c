// Marginals for tests: drawn at random, with the awkward features on demand. Header-only.
#ifndef BASTION_TESTS_SUPPORT_RANDOM_MARGINALS_H_
#define BASTION_TESTS_SUPPORT_RANDOM_MARGINALS_H_

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "common/stages/marginals.h"

namespace bastion::testing {

using Probabilities = std::vector<std::vector<double>>;  // [P, K], falling within a position.

enum class Awkward { kNone, kTies, kZeroTails };

// [P, K] from linear probabilities, already sorted; token id = 100·position + rank.
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

// The top candidate has `top`, every further one `fall` of what is left before it.
inline Probabilities Ladder(int positions, int candidates, double top, double fall = 0.5) {
  Probabilities rows(positions);
  for (std::vector<double>& row : rows) {
    double left = 1 - top;
    row.push_back(top);
    for (int r = 1; r < candidates; ++r) {
      row.push_back(std::min(row.back(), left * fall));
      left -= row.back();
    }
  }
  return rows;
}

// kTies draws from few values; kZeroTails ends each position, at a rank of its own, in zeros (from
// rank 0 on once in a while). `sharpness` > 1 makes the first ranks stand out.
inline Marginals RandomMarginals(std::mt19937& random, int positions, int candidates,
                                 Awkward awkward = Awkward::kNone, double sharpness = 1.0) {
  Probabilities rows(positions, std::vector<double>(candidates));
  for (std::vector<double>& row : rows) {
    double sum = 0;
    for (double& value : row) {
      value = awkward == Awkward::kTies
                  ? static_cast<double>(1 + random() % 2)
                  : std::pow(std::uniform_real_distribution<>(0.01, 1.0)(random), sharpness);
      sum += value;
    }
    for (double& value : row) value /= sum;
    std::sort(row.begin(), row.end(), std::greater<>());
    if (awkward == Awkward::kZeroTails) {
      const auto kept = static_cast<std::ptrdiff_t>(random() % (candidates + 1));
      std::fill(row.begin() + kept, row.end(), 0.0);
    }
  }
  return MarginalsOf(rows);
}

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_RANDOM_MARGINALS_H_
