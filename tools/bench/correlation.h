// Correlation coefficients. Thread-safe: no state.
#ifndef BASTION_TOOLS_BENCH_CORRELATION_H_
#define BASTION_TOOLS_BENCH_CORRELATION_H_

#include <utility>
#include <vector>

namespace bastion {

// Pearson's coefficient of the pairs. 0 if either side is constant, or with fewer than two pairs.
[[nodiscard]] double Pearson(const std::vector<std::pair<double, double>>& pairs);

// Spearman's coefficient: Pearson's of the ranks. Equal values share their mean rank.
[[nodiscard]] double Spearman(const std::vector<std::pair<double, double>>& pairs);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_CORRELATION_H_
