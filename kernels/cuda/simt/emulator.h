// Runs kernels on a CPU as a GPU would, block by block, the threads of a block taking turns at
// barriers: for tests, where there is no GPU. Slow, and strict:
//
// - a barrier that some thread of the block or warp never reaches stops the program, and says who;
// - shared memory is full of NaNs when a block begins;
// - asynchronous copies arrive when they are waited for, not before;
// - the order of blocks, and of threads between barriers, can be shuffled (SetSchedule): what
//   depends on it was a race.
//
// One launch at a time, on the thread that calls Run.
#ifndef BASTION_KERNELS_CUDA_SIMT_EMULATOR_H_
#define BASTION_KERNELS_CUDA_SIMT_EMULATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/cuda/simt/launch_shape.h"

namespace bastion::kernels::cuda::emulator {

inline constexpr size_t kSharedBytes = 227 * 1024;  // Of a block on sm_90.

// The order in which blocks run, and threads between barriers: 0 rising, else shuffled by it.
void SetSchedule(uint32_t seed);

// Runs `thread` for every thread of every block.
void Run(const LaunchShape& shape, absl::FunctionRef<void()> thread);

// What follows is called from kernels, by way of simt.h.

[[nodiscard]] int ThreadIndex();
[[nodiscard]] int BlockThreads();
[[nodiscard]] Grid Block();
[[nodiscard]] Grid Blocks();
[[nodiscard]] char* Shared();
void SyncBlock();
void SyncWarp();

// What the lanes of a warp brought to an Exchange.
struct WarpValues {
  static constexpr size_t kBytes = 32;
  alignas(16) char bytes[kWarp][kBytes];

  [[nodiscard]] const char* of(int lane) const { return bytes[lane]; }
};

// Every lane of the warp brings `size` bytes and reads what all brought. REQUIRES: size <= kBytes.
void Exchange(const void* value, size_t size, absl::FunctionRef<void(const WarpValues&)> read);

// Sixteen bytes to `shared` from `global`, or zeros where that is null.
void QueueCopy(void* shared, const void* global);
void CommitCopies();
void FinishCopies(int pending);

}  // namespace bastion::kernels::cuda::emulator

#endif  // BASTION_KERNELS_CUDA_SIMT_EMULATOR_H_
