// Tests whether a token survives truncation, given the results of Truncate (truncation.h). Like
// simt.h, this file may be included only in kernel sources.
#ifndef BASTION_KERNELS_CUDA_CHOOSE_SURVIVORS_H_
#define BASTION_KERNELS_CUDA_CHOOSE_SURVIVORS_H_

#include <cstdint>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {

// Whether a rule can exclude tokens. At temperature 0, the best token wins regardless of the other
// parameters.
SIMT_DEVICE bool Truncates(const ChoiceRule& rule) {
  return rule.temperature > 0 && (rule.top_k > 0 || rule.top_p < 1 || rule.min_p > 0);
}

// The survivors of a row. All tokens survive if the rule does not truncate.
SIMT_DEVICE Survivors SurvivorsOf(const ChoiceRule& rule, const Survivors& survivors) {
  return Truncates(rule) ? survivors : Survivors{-simt::Infinity(), INT32_MAX};
}
SIMT_DEVICE bool Survives(float logit, int32_t token, const Survivors& survivors) {
  return logit > survivors.min_logit ||
         (logit == survivors.min_logit && token <= survivors.last_tied);
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_CHOOSE_SURVIVORS_H_
