// The words that kernels are written in: threads, barriers, warps, shared memory, copies and matrix
// instructions. nvcc gives them their meaning on a GPU. Everywhere else emulator.h does: the same
// sources then run thread by thread on a CPU, with barriers that notice who is missing, so that
// every kernel's logic is tested where no GPU is.
//
// A kernel is `SIMT_KERNEL(threads, blocks_per_multiprocessor) void Name(Args args)`, with blocks
// of one dimension and up to three of the grid. Its shared memory is DynamicShared(), nothing else.
#ifndef BASTION_KERNELS_CUDA_SIMT_SIMT_H_
#define BASTION_KERNELS_CUDA_SIMT_SIMT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/simt/launch_shape.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define SIMT_KERNEL(threads, blocks) __global__ __launch_bounds__(threads, blocks)
#define SIMT_DEVICE __device__ __forceinline__
#define SIMT_UNROLL _Pragma("unroll")
#define SIMT_ROLL _Pragma("unroll 1")  // Registers are dearer than the loop.
#else
#define SIMT_KERNEL(threads, blocks)
#define SIMT_DEVICE inline
#define SIMT_UNROLL
#define SIMT_ROLL
#endif

namespace bastion::kernels::cuda::simt {

// Sixteen bytes, the widest that one thread moves at once.
struct alignas(16) Bytes16 {
  uint32_t word[4];
};

}  // namespace bastion::kernels::cuda::simt

#ifdef __CUDACC__
#include "kernels/cuda/simt/simt_nvcc.h"
#else
#include "kernels/cuda/simt/simt_emulated.h"
#endif

// What follows from the words above, the same on both.
namespace bastion::kernels::cuda::simt {

SIMT_DEVICE int Lane() { return ThreadIndex() % kWarp; }
SIMT_DEVICE int Warp() { return ThreadIndex() / kWarp; }
SIMT_DEVICE int BlockWarps() { return BlockThreads() / kWarp; }

SIMT_DEVICE float WarpSum(float value) {
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) value += ShuffleXor(value, step);
  return value;
}

SIMT_DEVICE float WarpMax(float value) {
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) value = Max(value, ShuffleXor(value, step));
  return value;
}

// The same by pointers.
SIMT_DEVICE void CopyAsync16(void* shared, const void* global, bool valid) {
  CopyAsync16(SharedAddress(shared), global, valid);
}
SIMT_DEVICE void LoadMatrices(uint32_t (&words)[4], const void* row) {
  LoadMatrices(words, SharedAddress(row));
}
SIMT_DEVICE void LoadMatricesTransposed(uint32_t (&words)[4], const void* row) {
  LoadMatricesTransposed(words, SharedAddress(row));
}

// bfloat16 as its bits.
SIMT_DEVICE float FromBf16(uint16_t bits) { return AsFloat(static_cast<uint32_t>(bits) << 16); }
SIMT_DEVICE uint16_t ToBf16(float value) {
  const uint32_t bits = AsBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
// Of two in one word, as PackBf16 makes them.
SIMT_DEVICE float LowBf16(uint32_t pair) { return AsFloat(pair << 16); }
SIMT_DEVICE float HighBf16(uint32_t pair) { return AsFloat(pair & 0xFFFF0000u); }

// Elements of either type that activations and caches have.
SIMT_DEVICE float Load(const float* at) { return *at; }
SIMT_DEVICE float Load(const uint16_t* at) { return FromBf16(*at); }
SIMT_DEVICE void Store(float* at, float value) { *at = value; }
SIMT_DEVICE void Store(uint16_t* at, float value) { *at = ToBf16(value); }

}  // namespace bastion::kernels::cuda::simt

#endif  // BASTION_KERNELS_CUDA_SIMT_SIMT_H_
