// Whether counts of drawn outcomes can have come from a known distribution. Everything is
// deterministic. Thread-safe: no state.
#ifndef BASTION_CLIENT_EXACTNESS_STATISTICS_H_
#define BASTION_CLIENT_EXACTNESS_STATISTICS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace bastion {

// Outcomes with what was expected and what was drawn.
struct Bins {
  std::vector<double> probabilities;  // Sum to one.
  std::vector<int64_t> counts;
  int64_t draws = 0;
  int64_t impossible = 0;  // Draws of outcomes that have no probability; in no bin.
};

// Puts outcomes that are expected less than `least_expected` times into one bin; when that one is
// too small as well, the rarest of the others joins it. REQUIRES: as many counts as probabilities.
[[nodiscard]] Bins PoolRare(absl::Span<const double> probabilities,
                            absl::Span<const int64_t> counts, double least_expected = 5);

// Q(a, x) = Γ(a, x) / Γ(a), the regularised upper incomplete gamma function.
// REQUIRES: a > 0, x >= 0.
[[nodiscard]] double UpperGamma(double a, double x);

struct ChiSquare {
  double statistic = 0;
  int degrees = 0;     // Bins − 1.
  double p_value = 1;  // 0 when something impossible was drawn.
};
[[nodiscard]] ChiSquare ChiSquareOf(const Bins& bins);

// Half the sum of |drawn share − probability|.
[[nodiscard]] double TotalVariation(const Bins& bins);

// What total variation as many draws from the probabilities themselves give.
struct TotalVariationRange {
  double mean = 0;
  double deviation = 0;
};
[[nodiscard]] TotalVariationRange BootstrapTotalVariation(const Bins& bins, int rounds);

}  // namespace bastion

#endif  // BASTION_CLIENT_EXACTNESS_STATISTICS_H_
