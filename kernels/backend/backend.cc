#include "kernels/backend/backend.h"

#include "hwy/highway.h"
#include "kernels/cpu/kernels.h"
#include "kernels/reference/reference.h"

namespace bastion::kernels {

const Backend& CpuBackend() {
  static constexpr Backend backend = {
      .linear = cpu::Linear,
      .rms_norm = cpu::RmsNorm,
      .embed = cpu::Embed,
      .qkv = cpu::Qkv,
      .attention = cpu::Attention,
      .silu_mul = cpu::SiluMul,
      .choose = cpu::Choose,
      .top_k = cpu::TopK,
      .kv_move = cpu::KvMove,
  };
  return backend;
}

const Backend& ReferenceBackend() {
  static constexpr Backend backend = {
      .linear = reference::Linear,
      .rms_norm = reference::RmsNorm,
      .embed = reference::Embed,
      .qkv = reference::Qkv,
      .attention = reference::Attention,
      .silu_mul = reference::SiluMul,
      .choose = reference::Choose,
      .top_k = reference::TopK,
      .kv_move = reference::KvMove,
  };
  return backend;
}

std::string CpuInstructionSet() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  const std::string vectors = hwy::TargetName(targets & -targets);
  return cpu::HasTiles() ? vectors + " AMX" : vectors;
}

bool HasInt8Instructions() { return cpu::HasVnni(); }

}  // namespace bastion::kernels
