// Whether the two GPUs that the emulator plays can read each other's memory. For tests.
#ifndef BASTION_KERNELS_CUDA_RUNTIME_EMULATED_PEERS_H_
#define BASTION_KERNELS_CUDA_RUNTIME_EMULATED_PEERS_H_

namespace bastion::kernels::cuda::emulator {

enum class PeerAccess {
  kNone,      // OpenDevice names no peers, and Import refuses memory of the other GPU.
  kPromised,  // OpenDevice names the other GPU as a peer, but Import refuses its memory.
  kWorks,     // The initial state.
};

// Affects later calls of OpenDevice and Memory::Import. Thread-safe.
void SetPeerAccess(PeerAccess access);
[[nodiscard]] PeerAccess GetPeerAccess();

}  // namespace bastion::kernels::cuda::emulator

#endif  // BASTION_KERNELS_CUDA_RUNTIME_EMULATED_PEERS_H_
