// The CPU kernels. kernels/ops/ops.h specifies them, and kernels/cpu/cpu_backend.cc lists them in a
// table.
#ifndef BASTION_KERNELS_CPU_KERNELS_H_
#define BASTION_KERNELS_CPU_KERNELS_H_

#include <cstddef>

#include "kernels/ops/ops.h"
#include "kernels/ops/thread_pool.h"

namespace bastion::kernels::cpu {

// Constants that the variants of linear() share.
inline constexpr size_t kPrefetchBytes = 4096;  // How far ahead weights are prefetched.
inline constexpr int kGrainPanels = 4;          // Panels. Fewer are not worth another thread.

// Multiplies by fp32 or bf16 weights with vector instructions.
void LinearFloat(const LinearArgs& args, ThreadPool& pool);
// Adds the bias, if there is one, to the columns of y that belong to panels [begin, end). The
// variants of linear() call it for the panels that they have just computed.
void AddBias(const LinearArgs& args, int64_t begin, int64_t end);
void LinearInt8(const LinearArgs& args, ThreadPool& pool);
// Whether LinearInt8 uses AVX-512 VNNI.
bool HasVnni();
// Multiplies by bf16 weights with matrix instructions (AMX). On a CPU without AMX it runs in plain
// C++, which is slow.
void LinearTiles(const LinearArgs& args, ThreadPool& pool);
// Whether LinearTiles uses AMX.
bool HasTiles();
// Multiplies by weights in any format.
inline void Linear(const LinearArgs& args, ThreadPool& pool) {
  switch (args.weight.format) {
    case WeightFormat::kBF16:
      return HasTiles() ? LinearTiles(args, pool) : LinearFloat(args, pool);
    case WeightFormat::kInt8:
      return LinearInt8(args, pool);
    case WeightFormat::kF32:
      return LinearFloat(args, pool);
  }
}
// Floats per vector of the instruction set in use.
int VectorFloats();
void RmsNorm(const RmsNormArgs& args, ThreadPool& pool);
void LayerNorm(const LayerNormArgs& args, ThreadPool& pool);
void Embed(const EmbedArgs& args, ThreadPool& pool);
void Qkv(const QkvArgs& args, ThreadPool& pool);
void Attention(const AttentionArgs& args, ThreadPool& pool);
void SiluMul(const SiluMulArgs& args, ThreadPool& pool);
void Gelu(const GeluArgs& args, ThreadPool& pool);
void Scale(const ScaleArgs& args, ThreadPool& pool);
void Convolve(const ConvolveArgs& args, ThreadPool& pool);
void Route(const RouteArgs& args, ThreadPool& pool);
void GatherRows(const GatherRowsArgs& args, ThreadPool& pool);
void Combine(const CombineArgs& args, ThreadPool& pool);
void Choose(const ChooseArgs& args, ThreadPool& pool);
void TopK(const TopKArgs& args, ThreadPool& pool);
void KvMove(const KvMoveArgs& args, ThreadPool& pool);

}  // namespace bastion::kernels::cpu

#endif  // BASTION_KERNELS_CPU_KERNELS_H_
