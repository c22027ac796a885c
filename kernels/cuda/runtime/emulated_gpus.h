// The two GPUs that the emulator plays, for tests: whether they can read each other's memory, and
// how often the host waits for all their work. Thread-safe.
#ifndef BASTION_KERNELS_CUDA_RUNTIME_EMULATED_GPUS_H_
#define BASTION_KERNELS_CUDA_RUNTIME_EMULATED_GPUS_H_

#include <cstdint>

namespace bastion::kernels::cuda::emulator {

enum class PeerAccess {
  kNone,      // OpenDevice names no peers, and Import refuses memory of the other GPU.
  kPromised,  // OpenDevice names the other GPU as a peer, but Import refuses its memory.
  kWorks,     // The initial state.
};

// Affects later calls of OpenDevice and Memory::Import.
void SetPeerAccess(PeerAccess access);
[[nodiscard]] PeerAccess GetPeerAccess();

// Calls of Stream::Synchronize so far. A GPU would have no work after each of them.
[[nodiscard]] int64_t Synchronizations();

}  // namespace bastion::kernels::cuda::emulator

#endif  // BASTION_KERNELS_CUDA_RUNTIME_EMULATED_GPUS_H_
