// ValueHistogram: the values of candidate nodes, in logarithmic bins. The value of a node is the
// probability that the target accepts it. Counts may be fractions, because a histogram can be a
// mean. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PLANNER_VALUE_HISTOGRAM_H_
#define BASTION_ORCHESTRATOR_PLANNER_VALUE_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cmath>

namespace bastion {

class ValueHistogram {
 public:
  static constexpr int kBinsPerHalving = 4;
  static constexpr int kBins = 10 * kBinsPerHalving;  // Down to 2^-10. Lower values are left out.

  struct Bin {
    double count = 0;  // Nodes.
    double sum = 0;    // The sum of their values.
  };

  // Adds `count` nodes of `value`, which lies in [0, 1].
  void Add(double value, double count = 1) {
    const int bin = value > 0 ? static_cast<int>(-std::log2(value) * kBinsPerHalving) : kBins;
    if (bin >= kBins) return;
    bins_[bin].count += count;
    bins_[bin].sum += count * value;
  }

  // Adds `weight` times `other`.
  void Add(const ValueHistogram& other, double weight) {
    for (int i = 0; i < kBins; ++i) {
      bins_[i].count += weight * other.bins_[i].count;
      bins_[i].sum += weight * other.bins_[i].sum;
    }
  }

  void Scale(double factor) {
    for (Bin& bin : bins_) {
      bin.count *= factor;
      bin.sum *= factor;
    }
  }

  // Bin 0 holds the largest values.
  [[nodiscard]] const Bin& bin(int i) const { return bins_[i]; }

  // Σ max(0, value − price): what the nodes are worth beyond their price.
  [[nodiscard]] double Surplus(double price) const {
    double surplus = 0;
    for (const Bin& bin : bins_) surplus += std::max(0.0, bin.sum - price * bin.count);
    return surplus;
  }

  // The sum of all values: the expected number of accepted nodes if all nodes were verified.
  [[nodiscard]] double Sum() const {
    double sum = 0;
    for (const Bin& bin : bins_) sum += bin.sum;
    return sum;
  }

 private:
  std::array<Bin, kBins> bins_{};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PLANNER_VALUE_HISTOGRAM_H_
