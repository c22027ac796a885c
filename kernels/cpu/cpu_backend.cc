#include "kernels/cpu/cpu_backend.h"

#include "hwy/highway.h"
#include "kernels/cpu/kernels.h"

namespace bastion::kernels {
namespace {

std::string InstructionSet() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  const std::string vectors = hwy::TargetName(targets & -targets);
  return cpu::HasTiles() ? vectors + " AMX" : vectors;
}

}  // namespace

const Backend& CpuBackend() {
  static constexpr Backend backend = {
      .linear = cpu::Linear,
      .rms_norm = cpu::RmsNorm,
      .layer_norm = cpu::LayerNorm,
      .embed = cpu::Embed,
      .qkv = cpu::Qkv,
      .attention = cpu::Attention,
      .silu_mul = cpu::SiluMul,
      .gelu = cpu::Gelu,
      .scale = cpu::Scale,
      .convolve = cpu::Convolve,
      .route = cpu::Route,
      .gather_rows = cpu::GatherRows,
      .combine = cpu::Combine,
      .choose = cpu::Choose,
      .top_k = cpu::TopK,
      .kv_move = cpu::KvMove,
      .describe = InstructionSet,
  };
  return backend;
}

bool HasInt8Instructions() { return cpu::HasVnni(); }

}  // namespace bastion::kernels
