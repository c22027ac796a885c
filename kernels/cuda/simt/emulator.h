// Runs GPU kernels on a CPU, for tests on machines without a GPU. It runs one block at a time and
// switches between the threads of a block at barriers. It is slow and strict:
//
// - If a thread of the block or warp never reaches a barrier, the emulator aborts and reports how
//   many threads wait at which barrier.
// - Shared memory is filled with NaNs when a block begins.
// - Asynchronous copies take effect only when the kernel waits for them.
// - A kernel that does not wait for the kernels before it aborts, although here they are over.
// - SetSchedule shuffles the order of blocks, and of threads between barriers. If a result depends
//   on that order, the kernel has a race.
//
// It runs one launch at a time, on the thread that calls Run.
#ifndef BASTION_KERNELS_CUDA_SIMT_EMULATOR_H_
#define BASTION_KERNELS_CUDA_SIMT_EMULATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/cuda/simt/launch_shape.h"

namespace bastion::kernels::cuda::emulator {

inline constexpr size_t kSharedBytes = 227 * 1024;  // The limit for a block on sm_90.

// Sets the order of blocks, and of threads between barriers. 0: ascending; else: shuffled with this
// seed.
void SetSchedule(uint32_t seed);

// Runs `thread` for every thread of every block.
void Run(const LaunchShape& shape, absl::FunctionRef<void()> thread);

// Kernels call the functions below through simt.h.

[[nodiscard]] int ThreadIndex();
[[nodiscard]] int BlockThreads();
[[nodiscard]] Grid Block();
[[nodiscard]] Grid Blocks();
[[nodiscard]] char* Shared();
void SyncBlock();
void SyncWarp();
// Waits until `ready` returns true. The emulator asks on any thread of the block, after the others
// have run.
void WaitUntil(absl::FunctionRef<bool()> ready);
// How many blocks have begun, this one included: it names the state of a block.
[[nodiscard]] int64_t BlocksBegun();
// Aborts unless the block has these bytes of shared memory.
void CheckShared(uint32_t at, int bytes);
void WaitForEarlierKernels();
// Aborts if this thread has not called WaitForEarlierKernels.
void CheckWaited();

// The values that the lanes of a warp passed to Exchange.
struct WarpValues {
  static constexpr size_t kBytes = 32;
  alignas(16) char bytes[kWarp][kBytes];

  [[nodiscard]] const char* of(int lane) const { return bytes[lane]; }
};

// Every lane of the warp passes `size` bytes; `read` gets the bytes of all lanes. REQUIRES: size <=
// kBytes.
void Exchange(const void* value, size_t size, absl::FunctionRef<void(const WarpValues&)> read);

// Queues a copy of 16 bytes from `global` to `shared`. If `global` is null, the copy writes zeros.
// CommitCopies closes a group of copies; FinishCopies performs the oldest groups until at most
// `pending` are left.
void QueueCopy(void* shared, const void* global);
void CommitCopies();
void FinishCopies(int pending);

}  // namespace bastion::kernels::cuda::emulator

#endif  // BASTION_KERNELS_CUDA_SIMT_EMULATOR_H_
