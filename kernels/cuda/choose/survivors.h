// Who is left in the race of a row: what Truncate (truncation.h) found, for kernels, as simt.h.
#ifndef BASTION_KERNELS_CUDA_CHOOSE_SURVIVORS_H_
#define BASTION_KERNELS_CUDA_CHOOSE_SURVIVORS_H_

#include <cstdint>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {

// Whether a rule leaves tokens out. At temperature 0 the best wins, whatever the rest says.
SIMT_DEVICE bool Truncates(const ChoiceRule& rule) {
  return rule.temperature > 0 && (rule.top_k > 0 || rule.top_p < 1 || rule.min_p > 0);
}

// What to hold tokens of `row` against: all survive where the rule does not truncate.
SIMT_DEVICE Survivors SurvivorsOf(const ChoiceRule& rule, const Survivors* survivors, int row) {
  return Truncates(rule) ? survivors[row] : Survivors{-simt::Infinity(), INT32_MAX};
}
SIMT_DEVICE bool Survives(float logit, int32_t token, const Survivors& survivors) {
  return logit > survivors.least || (logit == survivors.least && token <= survivors.last_tied);
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_CHOOSE_SURVIVORS_H_
