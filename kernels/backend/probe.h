// What this machine gives: the limits that kernels and forwards are held against. Measured with the
// threads in use, never typed in.
#ifndef BASTION_KERNELS_BACKEND_PROBE_H_
#define BASTION_KERNELS_BACKEND_PROBE_H_

#include "kernels/backend/backend.h"

namespace bastion::kernels {

// Bytes a second that the pool's threads read from memory, best of several passes over a buffer
// that no cache holds. Takes less than a tenth of a second.
[[nodiscard]] double ReadBandwidth(ThreadPool& pool);

// FLOP/s of linear() with many rows over a matrix that the
// caches hold, best of several.
[[nodiscard]] double LinearRate(const Backend& backend, DType dtype, ThreadPool& pool);

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_BACKEND_PROBE_H_
