// The vector kernels by name; contracts in kernels/ops.h, the table in kernels/backend/backend.cc.
#ifndef BASTION_KERNELS_CPU_KERNELS_H_
#define BASTION_KERNELS_CPU_KERNELS_H_

#include <cstddef>

#include "kernels/ops.h"
#include "kernels/thread_pool.h"

namespace bastion::kernels::cpu {

// What linear() has in common whatever it multiplies with.
inline constexpr size_t kPrefetchBytes = 4096;  // How far ahead of its use a weight is asked for.
inline constexpr int kPanelsWorth = 4;          // Handing over to another thread.

void Linear(const LinearArgs& args, ThreadPool& pool);
void LinearInt8(const LinearArgs& args, ThreadPool& pool);
bool HasVnni();
// bf16 weights on matrix instructions; in plain C++, slowly, on a CPU without them.
void LinearTiles(const LinearArgs& args, ThreadPool& pool);
bool HasTiles();
// Of the instruction set in use.
int VectorFloats();
void RmsNorm(const RmsNormArgs& args, ThreadPool& pool);
void Embed(const EmbedArgs& args, ThreadPool& pool);
void Qkv(const QkvArgs& args, ThreadPool& pool);
void Attention(const AttentionArgs& args, ThreadPool& pool);
void SiluMul(const SiluMulArgs& args, ThreadPool& pool);
void Choose(const ChooseArgs& args, ThreadPool& pool);
void TopK(const TopKArgs& args, ThreadPool& pool);
void KvMove(const KvMoveArgs& args, ThreadPool& pool);

}  // namespace bastion::kernels::cpu

#endif  // BASTION_KERNELS_CPU_KERNELS_H_
