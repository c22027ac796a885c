// Top-k, top-p and min-p over rows of logits, for the choice and the coupled top-k.
#ifndef BASTION_KERNELS_CUDA_CHOOSE_TRUNCATION_H_
#define BASTION_KERNELS_CUDA_CHOOSE_TRUNCATION_H_

#include <cstdint>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {

// Finds the survivors of the rows whose rules truncate; does not write the others. No token
// survives in a row that contains NaN or +inf, or only −inf.
struct TruncateArgs {
  const int32_t* rows_used = nullptr;
  const float* logits = nullptr;      // [R, V], V at most 2²²
  const ChoiceRule* rules = nullptr;  // [R]
  Survivors* survivors = nullptr;     // [R]
  int rows = 0;                       // R
  int vocabulary = 0;                 // V
};
void Truncate(const TruncateArgs& args, Stream& stream);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_CHOOSE_TRUNCATION_H_
