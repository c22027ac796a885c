#include "kernels/backend.h"

#include "hwy/highway.h"
#include "kernels/cpu/kernels.h"
#include "kernels/reference/reference.h"

namespace bastion::kernels {
namespace {

template <typename T>
void Pack(const T* matrix, int rows, int columns, T* packed) {
  for (int first = 0; first < rows; first += kPanel) {
    for (int k = 0; k < columns; ++k) {
      for (int n = first; n < first + kPanel; ++n) {
        *packed++ = n < rows ? matrix[size_t(n) * columns + k] : T{0};
      }
    }
  }
}

}  // namespace

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
  if (dtype == DType::kF32) {
    Pack(static_cast<const float*>(matrix), rows, columns, static_cast<float*>(packed));
  } else {
    Pack(static_cast<const uint16_t*>(matrix), rows, columns, static_cast<uint16_t*>(packed));
  }
}

}  // namespace bastion::kernels
