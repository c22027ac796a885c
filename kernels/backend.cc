#include "kernels/backend.h"

#include <cstring>

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
  return hwy::TargetName(targets & -targets);
}

void PackMatrix(DType dtype, const void* matrix, int rows, int columns, void* packed) {
  const size_t element = BytesPerElement(dtype);
  const PackedMatrix layout = {dtype, rows, columns, packed};
  std::memset(packed, 0, layout.bytes());
  const auto* source = static_cast<const char*>(matrix);
  auto* target = static_cast<char*>(packed);
  for (int n = 0; n < rows; ++n) {
    const size_t panel = size_t(n / kPanel) * columns * kPanel + n % kPanel;
    for (int k = 0; k < columns; ++k) {
      std::memcpy(target + (panel + size_t(k) * kPanel) * element,
                  source + (size_t(n) * columns + k) * element, element);
    }
  }
}

}  // namespace bastion::kernels
