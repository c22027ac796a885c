// The GPU of this process, for code that calls CUDA directly.
#ifndef BASTION_KERNELS_CUDA_RUNTIME_CURRENT_DEVICE_H_
#define BASTION_KERNELS_CUDA_RUNTIME_CURRENT_DEVICE_H_

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace bastion::kernels::cuda {

// The ordinal of the GPU that OpenDevice chose. REQUIRES: OpenDevice succeeded.
[[nodiscard]] int ProcessDevice();
// Makes the process's GPU the current device of the calling thread. CUDA keeps a current device per
// thread, initially device 0.
[[nodiscard]] cudaError_t MakeCurrent();
// UUIDs of the other GPUs that this process sees and whose memory GPU `ordinal` can read.
[[nodiscard]] std::vector<std::string> FindPeers(int ordinal);

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_RUNTIME_CURRENT_DEVICE_H_
