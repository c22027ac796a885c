// The primitives of simt.h in the emulator (emulator.h). Only simt.h includes this file.
#ifndef BASTION_KERNELS_CUDA_SIMT_SIMT_EMULATED_H_
#define BASTION_KERNELS_CUDA_SIMT_SIMT_EMULATED_H_

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/base/check.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/cuda/simt/emulator.h"
#include "kernels/ops/types.h"

namespace bastion::kernels::cuda::simt {

inline int ThreadIndex() { return emulator::ThreadIndex(); }
inline int BlockThreads() { return emulator::BlockThreads(); }
inline Grid Block() { return emulator::Block(); }
inline Grid Blocks() { return emulator::Blocks(); }

inline void WaitForEarlierKernels() { emulator::WaitForEarlierKernels(); }
inline void LetNextKernelStart() {}

inline void SyncBlock() { emulator::SyncBlock(); }
inline void SyncWarp() { emulator::SyncWarp(); }

// Returns the `value` that lane `lane` passed.
template <typename T>
T Shuffle(T value, int lane) {
  T taken;
  emulator::Exchange(&value, sizeof(T), [&](const emulator::WarpValues& values) {
    std::memcpy(&taken, values.of(lane & (kWarp - 1)), sizeof(T));
  });
  return taken;
}
template <typename T>
T ShuffleXor(T value, int lanes) {
  return Shuffle(value, (emulator::ThreadIndex() % kWarp) ^ lanes);
}
inline uint32_t Ballot(bool vote) {
  uint32_t votes = 0;
  emulator::Exchange(&vote, sizeof(vote), [&](const emulator::WarpValues& values) {
    for (int lane = 0; lane < kWarp; ++lane) {
      bool theirs;
      std::memcpy(&theirs, values.of(lane), sizeof(theirs));
      votes |= static_cast<uint32_t>(theirs) << lane;
    }
  });
  return votes;
}

inline char* DynamicShared() { return emulator::Shared(); }
inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(static_cast<const char*>(shared) - DynamicShared());
}

// The emulator switches threads only at barriers, so plain reads and writes are atomic.
template <typename T>
T AtomicAdd(T* at, T value) {
  const T before = *at;
  *at = before + value;
  return before;
}
inline uint64_t AtomicMax(uint64_t* at, uint64_t value) {
  const uint64_t before = *at;
  *at = std::max(before, value);
  return before;
}
inline void FenceDevice() {}
inline void FenceSystem() {}
inline void StoreForHost(uint64_t* at, uint64_t value) { *at = value; }

inline uint32_t AsBits(float value) { return __builtin_bit_cast(uint32_t, value); }
inline float AsFloat(uint32_t bits) { return __builtin_bit_cast(float, bits); }
inline uint32_t PackBf16(float first, float second) {
  return FloatToBf16(first) | static_cast<uint32_t>(FloatToBf16(second)) << 16;
}
inline uint32_t SelectBytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t bytes = static_cast<uint64_t>(b) << 32 | a;
  uint32_t selected = 0;
  for (int i = 0; i < 4; ++i) {
    const auto byte = static_cast<uint8_t>(bytes >> 8 * (selector >> 4 * i & 7));
    selected |= static_cast<uint32_t>(byte) << 8 * i;
  }
  return selected;
}
// Rounds twice if the result needs more than 24 bits.
inline uint32_t FusedMultiplyAddBf16(uint32_t a, uint32_t b, uint32_t c) {
  const auto half = [&](int shift) {
    const auto value = [&](uint32_t pair) {
      return Bf16ToFloat(static_cast<uint16_t>(pair >> shift));
    };
    return std::fma(value(a), value(b), value(c));
  };
  return PackBf16(half(0), half(16));
}
inline int PopCount(uint32_t bits) { return __builtin_popcount(bits); }
inline int LowestBit(uint32_t bits) { return __builtin_ctz(bits); }
inline int LowestBit(uint64_t bits) { return __builtin_ctzll(bits); }
inline uint32_t MultiplyHigh(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
}
inline float Multiply(float a, float b) { return a * b; }
inline void KeepOrder() {}
inline float FusedMultiplyAdd(float a, float b, float c) { return std::fma(a, b, c); }
inline float Max(float a, float b) { return std::fmax(a, b); }
inline float Min(float a, float b) { return std::fmin(a, b); }
inline int Max(int a, int b) { return std::max(a, b); }
inline int Min(int a, int b) { return std::min(a, b); }
inline float Exp(float x) { return std::exp(x); }
inline float Exp2(float x) { return std::exp2(x); }
inline float Log(float x) { return std::log(x); }
inline float Log1p(float x) { return std::log1p(x); }
inline double Log(double x) { return std::log(x); }
inline float ComplementaryErf(float x) { return std::erfc(x); }
inline float ReciprocalSqrt(float x) { return 1.0f / std::sqrt(x); }
inline float Sqrt(float x) { return std::sqrt(x); }
inline float Infinity() { return std::numeric_limits<float>::infinity(); }

inline Bytes16 LoadBytes16(const void* at) {
  CHECK_EQ(reinterpret_cast<uintptr_t>(at) % 16, 0u)
      << "a 16-byte load must be aligned to 16 bytes";
  Bytes16 bytes;
  std::memcpy(&bytes, at, sizeof(bytes));
  return bytes;
}
inline void StoreBytes16(void* at, const Bytes16& bytes) {
  CHECK_EQ(reinterpret_cast<uintptr_t>(at) % 16, 0u)
      << "a 16-byte store must be aligned to 16 bytes";
  std::memcpy(at, &bytes, sizeof(bytes));
}

// Copies take effect as late as CUDA permits: when the kernel waits for them.
inline void CopyAsync16(uint32_t to, const void* global, bool valid) {
  emulator::QueueCopy(DynamicShared() + to, valid ? global : nullptr);
}
inline void CommitCopies() { emulator::CommitCopies(); }
template <int Pending>
void WaitCopies() {
  emulator::FinishCopies(Pending);
}

void LoadMatrices(uint32_t (&words)[4], uint32_t row_address);
void LoadMatricesTransposed(uint32_t (&words)[4], uint32_t row_address);
void MatrixMultiplyAdd(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <typename Args>
void Launch(Stream& stream, void (*kernel)(Args), const LaunchShape& shape, const Args& args) {
  stream.AddHostWork([kernel, shape, args] {
    emulator::Run(shape, [&] {
      kernel(args);
      emulator::CheckWaited();
    });
  });
}

}  // namespace bastion::kernels::cuda::simt

#endif  // BASTION_KERNELS_CUDA_SIMT_SIMT_EMULATED_H_
