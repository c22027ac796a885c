// The rotary table of a model: cosines and sines of the angles by which rotary position embedding
// rotates queries and keys.
#ifndef BASTION_ENGINE_MODEL_ROTARY_H_
#define BASTION_ENGINE_MODEL_ROTARY_H_

#include "common/hub/model_config.h"
#include "kernels/ops/thread_pool.h"

namespace bastion::nn {

// table [positions, d] = cos(p·fᵢ) for i < d/2, then the sines, where d elements of a head rotate.
// fᵢ is θ^(−2i/d), scaled as hub::RopeConfig says. Angles are computed in
// double: at position 30,000 a float angle has an error in its third decimal place.
void FillRotaryTable(const hub::ModelConfig& config, kernels::ThreadPool& pool, float* table);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_ROTARY_H_
