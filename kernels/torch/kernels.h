// The ATen kernels. `kCompute` is the type of a kernel's arithmetic: at::kFloat or at::kDouble. The
// kernels without it are exact or always compute in double precision.
#ifndef BASTION_KERNELS_TORCH_KERNELS_H_
#define BASTION_KERNELS_TORCH_KERNELS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include "kernels/ops/ops.h"
#include "kernels/ops/thread_pool.h"

namespace bastion::kernels::torch {

template <at::ScalarType kCompute>
void Linear(const LinearArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void RmsNorm(const RmsNormArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void LayerNorm(const LayerNormArgs& args, ThreadPool& pool);
void Embed(const EmbedArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void Qkv(const QkvArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void Attention(const AttentionArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void SiluMul(const SiluMulArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void Gelu(const GeluArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void Scale(const ScaleArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void Convolve(const ConvolveArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void Route(const RouteArgs& args, ThreadPool& pool);
void GatherRows(const GatherRowsArgs& args, ThreadPool& pool);
template <at::ScalarType kCompute>
void Combine(const CombineArgs& args, ThreadPool& pool);
void Choose(const ChooseArgs& args, ThreadPool& pool);
void TopK(const TopKArgs& args, ThreadPool& pool);
void KvMove(const KvMoveArgs& args, ThreadPool& pool);

}  // namespace bastion::kernels::torch

#endif  // BASTION_KERNELS_TORCH_KERNELS_H_
