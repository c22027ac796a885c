// Measures the memory bandwidth and the arithmetic rate of this machine. Kernels and forwards are
// compared with these limits. The measurements use the engine's own threads.
#ifndef BASTION_KERNELS_OPS_PROBE_H_
#define BASTION_KERNELS_OPS_PROBE_H_

#include "kernels/ops/backend.h"

namespace bastion::kernels {

// Bytes per second that the pool's threads read from memory: the best of several passes over a
// buffer larger than the caches. Takes well under a second.
[[nodiscard]] double ReadBandwidth(ThreadPool& pool);

// FLOP/s of linear() with many rows and a matrix that fits in the caches: the best of several
// passes.
[[nodiscard]] double LinearRate(const Backend& backend, WeightFormat format, ThreadPool& pool);

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_PROBE_H_
