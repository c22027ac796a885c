// Top-k, top-p and min-p over a row of logits. Like vector.h, this file is included once for every
// instruction set.
#if defined(BASTION_KERNELS_CPU_TRUNCATION_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BASTION_KERNELS_CPU_TRUNCATION_H_
#undef BASTION_KERNELS_CPU_TRUNCATION_H_
#else
#define BASTION_KERNELS_CPU_TRUNCATION_H_
#endif

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "hwy/highway.h"
#include "kernels/cpu/ranking.h"
#include "kernels/ops/ops.h"

HWY_BEFORE_NAMESPACE();
namespace bastion::kernels::HWY_NAMESPACE {

// Finds the tokens that survive top-k, then top-p, then min-p. Each step sees only the survivors of
// the previous step. In a row with NaNs, no token survives.
class Truncation {
 public:
  Truncation(const float* logits, int count, const ChoiceRule& rule)
      : logits_(logits),
        count_(count),
        rule_(rule),
        highest_(Highest(logits, count)),
        total_(SumExp(logits, count, highest_, 1.0f / rule.temperature)) {}

  const std::vector<int32_t>& Survivors() {
    static thread_local std::vector<int32_t> kept;
    kept.clear();
    if (std::isnan(total_)) return kept;
    if (rule_.top_k > 0 && rule_.top_k < count_) {
      SortedBest(logits_, count_, rule_.top_k, kept);
      total_ = MassOf(kept);
    } else if (rule_.top_p < 1) {
      SortUntilTopP(kept);
    } else {
      kept.resize(count_);
      std::iota(kept.begin(), kept.end(), 0);
    }
    if (rule_.top_p < 1) KeepTopP(kept);
    if (rule_.min_p > 0) KeepMinP(kept);
    return kept;
  }

 private:
  // Unnormalized: the most likely token has mass 1.
  float Mass(int32_t x) const { return std::exp((logits_[x] - highest_) / rule_.temperature); }
  float MassOf(const std::vector<int32_t>& tokens) const {
    float mass = 0;
    for (const int32_t x : tokens) mass += Mass(x);
    return mass;
  }

  // Sorts the 64 most likely tokens, then 8 times as many, and so on, until the sorted tokens have
  // top_p of the total mass.
  void SortUntilTopP(std::vector<int32_t>& kept) const {
    for (int64_t wanted = 64;; wanted *= 8) {
      SortedBest(logits_, count_, static_cast<int>(std::min<int64_t>(wanted, count_)), kept);
      if (wanted >= count_ || MassOf(kept) >= rule_.top_p * total_) return;
    }
  }

  // Keeps a token if all more likely tokens together have less than top_p of the total mass.
  void KeepTopP(std::vector<int32_t>& kept) const {
    float likelier = 0;
    size_t kept_count = 0;
    while (kept_count < kept.size() && (kept_count == 0 || likelier < rule_.top_p * total_)) {
      likelier += Mass(kept[kept_count++]);
    }
    kept.resize(kept_count);
  }

  void KeepMinP(std::vector<int32_t>& kept) const {
    kept.erase(
        std::remove_if(kept.begin(), kept.end(), [&](int32_t x) { return Mass(x) < rule_.min_p; }),
        kept.end());
  }

  const float* const logits_;
  const int count_;
  const ChoiceRule& rule_;
  const float highest_;
  float total_;
};

}  // namespace bastion::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BASTION_KERNELS_CPU_TRUNCATION_H_
