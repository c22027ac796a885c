// The primitives for writing kernels: threads, barriers, warps, shared memory, copies and matrix
// instructions. With nvcc they are intrinsics of the GPU (simt_nvcc.h). With other compilers they
// call the emulator (emulator.h), which runs the same sources thread by thread on a CPU, so that
// tests cover the logic of every kernel on machines without a GPU.
//
// A kernel is `SIMT_KERNEL(threads, blocks_per_multiprocessor) void Name(Args args)`. Its first
// statement is BeginKernel(), because kernels overlap: on sm_90 and later, a kernel may start while
// the one before it is still running. Blocks have
// one dimension; the grid has up to three. DynamicShared() is the only shared memory that a kernel
// may use.
#ifndef BASTION_KERNELS_CUDA_SIMT_SIMT_H_
#define BASTION_KERNELS_CUDA_SIMT_SIMT_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/simt/launch_shape.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define SIMT_KERNEL(threads, blocks) __global__ __launch_bounds__(threads, blocks)
#define SIMT_DEVICE __device__ __forceinline__
#define SIMT_ANYWHERE __host__ __device__ __forceinline__
#define SIMT_PRAGMA(text) _Pragma(#text)
#define SIMT_UNROLL _Pragma("unroll")
#define SIMT_UNROLL_BY(times) SIMT_PRAGMA(unroll(times))
#define SIMT_ROLL _Pragma("unroll 1")  // Unrolling would cost more registers than it is worth.
#ifdef __CUDA_ARCH__
#define SIMT_CAPABILITY (__CUDA_ARCH__ / 10)
#else
#define SIMT_CAPABILITY 0  // nvcc compiles the code of the host.
#endif
#else
#define SIMT_KERNEL(threads, blocks)
#define SIMT_DEVICE inline
#define SIMT_ANYWHERE inline
#define SIMT_UNROLL
#define SIMT_UNROLL_BY(times)
#define SIMT_ROLL
#endif

namespace bastion::kernels::cuda::simt {

// 16 bytes, the widest load or store of one thread.
struct alignas(16) Bytes16 {
  uint32_t word[4];
};

}  // namespace bastion::kernels::cuda::simt

#ifdef __CUDACC__
#include "kernels/cuda/simt/simt_nvcc.h"
#else
#include "kernels/cuda/simt/simt_emulated.h"
#endif

// Functions that use the primitives above. They are the same on the GPU and in the emulator.
namespace bastion::kernels::cuda::simt {

// What a kernel does first, unless it can do something before it waits.
SIMT_DEVICE void BeginKernel() {
  LetNextKernelStart();
  WaitForEarlierKernels();
}

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

// Overloads for pointers.
SIMT_DEVICE void CopyAsync16(void* shared, const void* global, bool valid) {
  CopyAsync16(SharedAddress(shared), global, valid);
}
SIMT_DEVICE void LoadMatrices(uint32_t (&words)[4], const void* row) {
  LoadMatrices(words, SharedAddress(row));
}
SIMT_DEVICE void LoadMatricesTransposed(uint32_t (&words)[4], const void* row) {
  LoadMatricesTransposed(words, SharedAddress(row));
}

// Conversions of bfloat16, which is stored as uint16_t.
SIMT_DEVICE float FromBf16(uint16_t bits) { return AsFloat(static_cast<uint32_t>(bits) << 16); }
SIMT_DEVICE uint16_t ToBf16(float value) {
  const uint32_t bits = AsBits(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}
// The two bfloat16 values in a word from PackBf16.
SIMT_DEVICE float LowBf16(uint32_t pair) { return AsFloat(pair << 16); }
SIMT_DEVICE float HighBf16(uint32_t pair) { return AsFloat(pair & 0xFFFF0000u); }

// Loads and stores of fp32 and bf16 elements.
SIMT_DEVICE float Load(const float* at) { return *at; }
SIMT_DEVICE float Load(const uint16_t* at) { return FromBf16(*at); }
SIMT_DEVICE void Store(float* at, float value) { *at = value; }
SIMT_DEVICE void Store(uint16_t* at, float value) { *at = ToBf16(value); }

}  // namespace bastion::kernels::cuda::simt

#endif  // BASTION_KERNELS_CUDA_SIMT_SIMT_H_
