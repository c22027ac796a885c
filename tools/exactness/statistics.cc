#include "tools/exactness/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "common/base/check.h"

namespace bastion {
namespace {

constexpr double kPrecision = 1e-15;
constexpr int kMaxTerms = 100000;

// x^a e^−x / Γ(a): the factor of both expansions.
double GammaFactor(double a, double x) { return std::exp(a * std::log(x) - x - std::lgamma(a)); }

// P(a, x) = 1 − Q(a, x) as a power series. It converges fast for x < a + 1.
double LowerGammaSeries(double a, double x) {
  double term = 1 / a, sum = term;
  for (int n = 1; n < kMaxTerms && term > sum * kPrecision; ++n) {
    term *= x / (a + n);
    sum += term;
  }
  return sum * GammaFactor(a, x);
}

// Q(a, x) as a continued fraction (Lentz's method). It converges fast for x >= a + 1.
double UpperGammaFraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, value = d;
  for (int n = 1; n < kMaxTerms; ++n) {
    const double numerator = -n * (n - a);
    b += 2;
    d = numerator * d + b;
    if (std::abs(d) < kTiny) d = kTiny;
    c = b + numerator / c;
    if (std::abs(c) < kTiny) c = kTiny;
    d = 1 / d;
    value *= d * c;
    if (std::abs(d * c - 1) < kPrecision) break;
  }
  return value * GammaFactor(a, x);
}

}  // namespace

Bins PoolRare(absl::Span<const double> probabilities, absl::Span<const int64_t> counts,
              double min_expected) {
  CHECK_EQ(probabilities.size(), counts.size());
  Bins bins;
  bins.draws = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const double threshold = min_expected / static_cast<double>(std::max<int64_t>(1, bins.draws));
  double rare = 0;
  int64_t rare_count = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (probabilities[i] <= 0) {
      bins.impossible += counts[i];
    } else if (probabilities[i] < threshold) {
      rare += probabilities[i];
      rare_count += counts[i];
    } else {
      bins.probabilities.push_back(probabilities[i]);
      bins.counts.push_back(counts[i]);
    }
  }
  if (rare == 0) return bins;
  if (rare < threshold && !bins.counts.empty()) {
    const auto rarest = std::min_element(bins.probabilities.begin(), bins.probabilities.end());
    *rarest += rare;
    bins.counts[rarest - bins.probabilities.begin()] += rare_count;
  } else {
    bins.probabilities.push_back(rare);
    bins.counts.push_back(rare_count);
  }
  return bins;
}

double UpperGamma(double a, double x) {
  if (x <= 0) return 1;
  return x < a + 1 ? 1 - LowerGammaSeries(a, x) : UpperGammaFraction(a, x);
}

ChiSquare ChiSquareOf(const Bins& bins) {
  ChiSquare result;
  result.degrees = std::max(0, static_cast<int>(bins.counts.size()) - 1);
  if (bins.impossible > 0) {
    result.statistic = std::numeric_limits<double>::infinity();
    result.p_value = 0;
    return result;
  }
  if (result.degrees == 0) return result;
  for (size_t i = 0; i < bins.counts.size(); ++i) {
    const double expected = bins.probabilities[i] * static_cast<double>(bins.draws);
    const double difference = static_cast<double>(bins.counts[i]) - expected;
    result.statistic += difference * difference / expected;
  }
  result.p_value = UpperGamma(result.degrees / 2.0, result.statistic / 2);
  return result;
}

double TotalVariation(const Bins& bins) {
  if (bins.draws == 0) return 0;
  const auto draws = static_cast<double>(bins.draws);
  double sum = static_cast<double>(bins.impossible) / draws;
  for (size_t i = 0; i < bins.counts.size(); ++i) {
    sum += std::abs(static_cast<double>(bins.counts[i]) / draws - bins.probabilities[i]);
  }
  return sum / 2;
}

TotalVariationRange BootstrapTotalVariation(const Bins& bins, int rounds) {
  if (bins.counts.empty() || rounds < 2) return {};
  std::mt19937_64 random(1);
  double sum = 0, squares = 0;
  for (int round = 0; round < rounds; ++round) {
    Bins drawn = bins;
    drawn.impossible = 0;
    // Sample the multinomial distribution bin by bin: the count of each bin is binomial over the
    // draws that earlier bins left.
    int64_t left = bins.draws;
    double mass = 1;
    for (size_t i = 0; i < bins.counts.size(); ++i) {
      const bool last = i + 1 == bins.counts.size();
      const double share = last ? 1 : std::clamp(bins.probabilities[i] / mass, 0.0, 1.0);
      drawn.counts[i] = std::binomial_distribution<int64_t>(left, share)(random);
      left -= drawn.counts[i];
      mass = std::max(mass - bins.probabilities[i], 1e-300);
    }
    const double variation = TotalVariation(drawn);
    sum += variation;
    squares += variation * variation;
  }
  const double mean = sum / rounds;
  return {mean, std::sqrt(std::max(0.0, squares / rounds - mean * mean))};
}

}  // namespace bastion
