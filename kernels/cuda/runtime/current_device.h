// The GPU of this process, for what is written against CUDA itself.
#ifndef BASTION_KERNELS_CUDA_RUNTIME_CURRENT_DEVICE_H_
#define BASTION_KERNELS_CUDA_RUNTIME_CURRENT_DEVICE_H_

#include <cuda_runtime_api.h>

namespace bastion::kernels::cuda {

// The one that OpenDevice chose. REQUIRES: it did.
[[nodiscard]] int ProcessDevice();
// CUDA keeps a current device for each thread, device 0 in the beginning: makes it the process's.
[[nodiscard]] cudaError_t MakeCurrent();

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_RUNTIME_CURRENT_DEVICE_H_
