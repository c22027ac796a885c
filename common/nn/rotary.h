// The rotary table of a model: what positions turn queries and keys by.
#ifndef BASTION_COMMON_NN_ROTARY_H_
#define BASTION_COMMON_NN_ROTARY_H_

#include "common/hub/model_config.h"
#include "kernels/thread_pool.h"

namespace bastion::nn {

// table [positions, D] = cos(p·θ^(−2i/D)) for i < D/2, then the sines. Angles in double: at
// position 30,000 a float angle would be wrong in the third digit.
void FillRotaryTable(const hub::ModelConfig& config, kernels::ThreadPool& pool, float* table);

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_ROTARY_H_
