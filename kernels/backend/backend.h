// A backend is one table of kernels, chosen once. Callers hold a pointer to it and never ask which.
#ifndef BASTION_KERNELS_BACKEND_BACKEND_H_
#define BASTION_KERNELS_BACKEND_BACKEND_H_

#include <string>

#include "kernels/ops.h"
#include "kernels/thread_pool.h"

namespace bastion::kernels {

struct Backend {
  void (*linear)(const LinearArgs&, ThreadPool&);
  void (*rms_norm)(const RmsNormArgs&, ThreadPool&);
  void (*embed)(const EmbedArgs&, ThreadPool&);
  void (*qkv)(const QkvArgs&, ThreadPool&);
  void (*attention)(const AttentionArgs&, ThreadPool&);
  void (*silu_mul)(const SiluMulArgs&, ThreadPool&);
  void (*choose)(const ChooseArgs&, ThreadPool&);
  void (*top_k)(const TopKArgs&, ThreadPool&);
  void (*kv_move)(const KvMoveArgs&, ThreadPool&);
  // What computes here, for people: an instruction set, e.g. "AVX3 AMX", or a library.
  std::string (*describe)();
};

// Vector kernels for the best instruction set of this CPU, found at run time.
[[nodiscard]] const Backend& CpuBackend();

// Whether linear() of CpuBackend multiplies int8 with instructions made for it. Elsewhere it is
// right, and slow.
[[nodiscard]] bool HasInt8Instructions();

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_BACKEND_BACKEND_H_
