// Tests whether counts of outcomes are consistent with a known distribution. Deterministic.
// Thread-safe: no state.
#ifndef BASTION_TOOLS_EXACTNESS_STATISTICS_H_
#define BASTION_TOOLS_EXACTNESS_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace bastion {

// Outcomes in bins, with their probabilities and counts.
struct Bins {
  std::vector<double> probabilities;  // Their sum is one.
  std::vector<int64_t> counts;
  int64_t draws = 0;
  int64_t impossible = 0;  // Draws of outcomes with probability 0. They are in no bin.
};

// Merges outcomes with an expected count below `min_expected` into one bin. If that bin is still
// too small, merges it with the rarest other bin. REQUIRES: as many counts as probabilities.
[[nodiscard]] Bins PoolRare(absl::Span<const double> probabilities,
                            absl::Span<const int64_t> counts, double min_expected = 5);

// Q(a, x) = Γ(a, x) / Γ(a), the regularized upper incomplete gamma function.
// REQUIRES: a > 0, x >= 0.
[[nodiscard]] double UpperGamma(double a, double x);

struct ChiSquare {
  double statistic = 0;
  int degrees = 0;     // Degrees of freedom: bins − 1.
  double p_value = 1;  // 0 if an impossible outcome was drawn.
};
[[nodiscard]] ChiSquare ChiSquareOf(const Bins& bins);

// Half the sum over the outcomes of |relative frequency − probability|.
[[nodiscard]] double TotalVariation(const Bins& bins);

// The total variation to expect if bins.draws outcomes are drawn from bins.probabilities, estimated
// from `rounds` simulations.
struct TotalVariationRange {
  double mean = 0;
  double deviation = 0;  // Standard deviation.
};
[[nodiscard]] TotalVariationRange BootstrapTotalVariation(const Bins& bins, int rounds);

}  // namespace bastion

#endif  // BASTION_TOOLS_EXACTNESS_STATISTICS_H_
