// The primitives of simt.h as nvcc intrinsics and PTX (PTX ISA 8; sm_80 and later). Only simt.h
// includes this file.
#ifndef BASTION_KERNELS_CUDA_SIMT_SIMT_NVCC_H_
#define BASTION_KERNELS_CUDA_SIMT_SIMT_NVCC_H_

#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda::simt {

SIMT_DEVICE int ThreadIndex() { return static_cast<int>(threadIdx.x); }
SIMT_DEVICE int BlockThreads() { return static_cast<int>(blockDim.x); }
SIMT_DEVICE Grid Block() {
  return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z)};
}
SIMT_DEVICE Grid Blocks() {
  return {static_cast<int>(gridDim.x), static_cast<int>(gridDim.y), static_cast<int>(gridDim.z)};
}

// Waits until all earlier kernels of the stream are over, and their writes are visible. Every
// thread of every kernel must call this before it reads what they may write, and before it writes.
// Then a kernel that is over implies that all kernels before it are. Constants of the step, weights
// and page tables may be read before.
SIMT_DEVICE void WaitForEarlierKernels() {
  if constexpr (SIMT_CAPABILITY >= 90) asm volatile("griddepcontrol.wait;\n" ::: "memory");
}
// Lets the blocks of the next kernel start where there is room, once all blocks of this one have
// called this or are over.
SIMT_DEVICE void LetNextKernelStart() {
  if constexpr (SIMT_CAPABILITY >= 90) {
    asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
  }
}

SIMT_DEVICE void SyncBlock() { __syncthreads(); }
SIMT_DEVICE void SyncWarp() { __syncwarp(); }

template <typename T>
SIMT_DEVICE T ShuffleXor(T value, int lanes) {
  return __shfl_xor_sync(0xFFFFFFFFu, value, lanes);
}
template <typename T>
SIMT_DEVICE T Shuffle(T value, int lane) {
  return __shfl_sync(0xFFFFFFFFu, value, lane);
}
SIMT_DEVICE uint32_t Ballot(bool vote) { return __ballot_sync(0xFFFFFFFFu, vote); }

SIMT_DEVICE char* DynamicShared() {
  extern __shared__ __align__(128) char bastion_dynamic_shared[];
  return bastion_dynamic_shared;
}

// The atomic functions return the old value.
SIMT_DEVICE int32_t AtomicAdd(int32_t* at, int32_t value) { return atomicAdd(at, value); }
SIMT_DEVICE uint32_t AtomicAdd(uint32_t* at, uint32_t value) { return atomicAdd(at, value); }
SIMT_DEVICE uint64_t AtomicAdd(uint64_t* at, uint64_t value) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(at),
                   static_cast<unsigned long long>(value));
}
SIMT_DEVICE uint64_t AtomicMax(uint64_t* at, uint64_t value) {
  return atomicMax(reinterpret_cast<unsigned long long*>(at),
                   static_cast<unsigned long long>(value));
}
SIMT_DEVICE void FenceDevice() { __threadfence(); }
SIMT_DEVICE void FenceSystem() { __threadfence_system(); }
// Stores to memory that the host polls. After a FenceSystem, the host sees all earlier writes of
// this thread before it sees this store.
SIMT_DEVICE void StoreForHost(uint64_t* at, uint64_t value) {
  *reinterpret_cast<volatile uint64_t*>(at) = value;
}

SIMT_DEVICE uint32_t AsBits(float value) { return __float_as_uint(value); }
SIMT_DEVICE float AsFloat(uint32_t bits) { return __uint_as_float(bits); }
// Rounds two floats to bf16 and packs them into one word, the first in the lower half. A NaN stays
// a NaN, but its bits may change.
SIMT_DEVICE uint32_t PackBf16(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
// Byte i of the result is byte number (selector >> 4 i) & 7 of [a, b], the lowest byte of a first.
SIMT_DEVICE uint32_t SelectBytes(uint32_t a, uint32_t b, uint32_t selector) {
  return __byte_perm(a, b, selector);
}
// a · b + c for both bf16 values of a word, rounded once. Subnormal numbers are kept.
SIMT_DEVICE uint32_t FusedMultiplyAddBf16(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}
SIMT_DEVICE int PopCount(uint32_t bits) { return __popc(bits); }
// Index of the lowest set bit. REQUIRES: bits != 0.
SIMT_DEVICE int LowestBit(uint32_t bits) { return __ffs(static_cast<int>(bits)) - 1; }
SIMT_DEVICE int LowestBit(uint64_t bits) { return __ffsll(static_cast<int64_t>(bits)) - 1; }
SIMT_DEVICE uint32_t MultiplyHigh(uint32_t a, uint32_t b) { return __umulhi(a, b); }
// a · b, rounded; never fused with an addition.
SIMT_DEVICE float Multiply(float a, float b) { return __fmul_rn(a, b); }
// The compiler does not move memory accesses across this. Without it, it loads all elements of an
// unrolled loop first, and runs out of registers.
SIMT_DEVICE void KeepOrder() { asm volatile("" ::: "memory"); }
SIMT_DEVICE float FusedMultiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
SIMT_DEVICE float Max(float a, float b) { return fmaxf(a, b); }
SIMT_DEVICE float Min(float a, float b) { return fminf(a, b); }
SIMT_DEVICE int Max(int a, int b) { return a > b ? a : b; }
SIMT_DEVICE int Min(int a, int b) { return a < b ? a : b; }
SIMT_DEVICE float Exp(float x) { return expf(x); }
SIMT_DEVICE float Exp2(float x) { return exp2f(x); }
SIMT_DEVICE float Log(float x) { return logf(x); }
SIMT_DEVICE float Log1p(float x) { return log1pf(x); }
SIMT_DEVICE double Log(double x) { return log(x); }
SIMT_DEVICE float ComplementaryErf(float x) { return erfcf(x); }
SIMT_DEVICE float ReciprocalSqrt(float x) { return 1.0f / sqrtf(x); }
SIMT_DEVICE float Sqrt(float x) { return sqrtf(x); }
SIMT_DEVICE float Infinity() { return __uint_as_float(0x7F800000u); }

// Loads and stores 16 bytes. REQUIRES: `at` is aligned to 16 bytes.
SIMT_DEVICE Bytes16 LoadBytes16(const void* at) { return *static_cast<const Bytes16*>(at); }
SIMT_DEVICE void StoreBytes16(void* at, const Bytes16& bytes) {
  *static_cast<Bytes16*>(at) = bytes;
}

// Starts an asynchronous copy of 16 bytes from global to shared memory; if `valid` is false, it
// writes zeros. CommitCopies closes a group of copies, and WaitCopies waits for groups. The other
// threads of the block see the data after WaitCopies and SyncBlock().
SIMT_DEVICE void CopyAsync16(uint32_t to, const void* global, bool valid) {
  const int bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global), "r"(bytes)
               : "memory");
}
SIMT_DEVICE void CommitCopies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
// Waits until at most `Pending` committed groups are unfinished.
template <int Pending>
SIMT_DEVICE void WaitCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}

// The address of `shared` within the block's shared memory. It needs half the registers of a
// pointer, and instructions add constant offsets to it for free.
SIMT_DEVICE uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane 8 m + r passes the address
// of row r of matrix m (16 bytes). In words[m], a lane gets elements 2 (lane % 4) and 2 (lane % 4)
// + 1 of row lane / 4 of matrix m. LoadMatricesTransposed returns the elements of column lane / 4
// instead.
SIMT_DEVICE void LoadMatrices(uint32_t (&words)[4], uint32_t row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row_address)
               : "memory");
}
SIMT_DEVICE void LoadMatricesTransposed(uint32_t (&words)[4], uint32_t row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(row_address)
               : "memory");
}

// d += a · b with a [16, 16] and b [16, 8] in bf16 and d [16, 8] in fp32, distributed over the
// warp. With g = lane / 4 and t = lane % 4, a lane holds these elements:
//   d: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
//   a: pairs from (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), along the row
//   b: pairs from (2t, g), (2t + 8, g), along the column
SIMT_DEVICE void MatrixMultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                   uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Enqueues kernel(args) with `shape` on `stream`. The kernel may start before the one before it is
// over (WaitForEarlierKernels).
template <typename Args>
void Launch(Stream& stream, void (*kernel)(Args), const LaunchShape& shape, const Args& args) {
  if (shape.grid.x <= 0 || shape.grid.y <= 0 || shape.grid.z <= 0) return;
  if (shape.shared > 48 * 1024) {
    stream.ReportError(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(shape.shared)),
                       "setting a kernel's shared memory");
  }
  const bool overlaps = stream.follows_kernel();
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(shape.grid.x, shape.grid.y, shape.grid.z);
  config.blockDim = dim3(shape.threads);
  config.dynamicSmemBytes = shape.shared;
  config.stream = static_cast<cudaStream_t>(stream.native());
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  stream.ReportError(cudaLaunchKernelEx(&config, kernel, args), "launching a kernel");
  stream.NoteKernel();
}

}  // namespace bastion::kernels::cuda::simt

#endif  // BASTION_KERNELS_CUDA_SIMT_SIMT_NVCC_H_
