// A backend is a table of kernels. It is selected once at startup; callers hold a pointer to it and
// do not depend on which backend it is.
#ifndef BASTION_KERNELS_OPS_BACKEND_H_
#define BASTION_KERNELS_OPS_BACKEND_H_

#include <string>

#include "kernels/ops/ops.h"
#include "kernels/ops/thread_pool.h"

namespace bastion::kernels {

struct Backend {
  void (*linear)(const LinearArgs&, ThreadPool&);
  void (*rms_norm)(const RmsNormArgs&, ThreadPool&);
  void (*layer_norm)(const LayerNormArgs&, ThreadPool&);
  void (*embed)(const EmbedArgs&, ThreadPool&);
  void (*qkv)(const QkvArgs&, ThreadPool&);
  void (*attention)(const AttentionArgs&, ThreadPool&);
  void (*silu_mul)(const SiluMulArgs&, ThreadPool&);
  void (*gelu)(const GeluArgs&, ThreadPool&);
  void (*scale)(const ScaleArgs&, ThreadPool&);
  void (*convolve)(const ConvolveArgs&, ThreadPool&);
  void (*route)(const RouteArgs&, ThreadPool&);
  void (*gather_rows)(const GatherRowsArgs&, ThreadPool&);
  void (*combine)(const CombineArgs&, ThreadPool&);
  void (*choose)(const ChooseArgs&, ThreadPool&);
  void (*top_k)(const TopKArgs&, ThreadPool&);
  void (*kv_move)(const KvMoveArgs&, ThreadPool&);
  // Names the implementation for logs: its instruction set (e.g. "AVX3 AMX") or its library.
  std::string (*describe)();
};

}  // namespace bastion::kernels

#endif  // BASTION_KERNELS_OPS_BACKEND_H_
