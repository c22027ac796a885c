// The parts of Attention that other files launch.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_H_

#include "kernels/cuda/ops.h"

namespace bastion::kernels::cuda::attention {

inline constexpr float kLog2E = 1.4426950408889634f;

// The prefixes with warpgroups (attention_warpgroup.cu). REQUIRES: WarpgroupsFor(args) > 0.
void LaunchWarpgroupPrefix(const AttentionArgs& args, Stream& stream);
// Adds the last keys of each row to its prefix, and stores the output (attention_tail.cu).
void LaunchTail(const AttentionArgs& args, Stream& stream);
// Attention in fp32, a reference for tests (attention_exact.cu).
void LaunchExact(const AttentionArgs& args, Stream& stream);

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_LAUNCH_H_
