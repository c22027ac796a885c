#include "kernels/backend.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/cpu/kernels.h"
#include "kernels/reference/reference.h"

namespace bastion::kernels {
namespace {

template <typename T>
void Pack(const T* matrix, const PackedMatrix& shape, T* packed) {
  for (int n = 0; n < shape.panels() * kPanel; ++n) {
    for (int k = 0; k < shape.depth(); ++k) {
      const bool inside = n < shape.rows && k < shape.columns;
      packed[shape.offset(n, k)] = inside ? matrix[size_t(n) * shape.columns + k] : T{0};
    }
  }
}

void PackInt8(const float* matrix, PackedMatrix shape, int8_t* packed) {
  std::memset(packed, 0, shape.bytes());
  shape.data = packed;
  for (int n = 0; n < shape.rows; ++n) {
    const float* row = matrix + size_t(n) * shape.columns;
    float largest = 0;
    for (int k = 0; k < shape.columns; ++k) largest = std::max(largest, std::abs(row[k]));
    int32_t sum = 0;
    for (int k = 0; k < shape.columns && largest > 0; ++k) {
      const auto rounded = static_cast<int8_t>(std::nearbyint(row[k] * (127 / largest)));
      packed[shape.offset(n, k)] = rounded;
      sum += rounded;
    }
    const_cast<float*>(shape.scales(n / kPanel))[n % kPanel] = largest / 127;
    const_cast<int32_t*>(shape.sums(n / kPanel))[n % kPanel] = sum;
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
  const std::string vectors = hwy::TargetName(targets & -targets);
  return cpu::HasTiles() ? vectors + " AMX" : vectors;
}

bool HasInt8Instructions() { return cpu::HasVnni(); }

void PackMatrix(DType dtype, const void* matrix, int rows, int columns, void* packed) {
  const PackedMatrix shape = {dtype, rows, columns, nullptr};
  if (dtype == DType::kF32) {
    Pack(static_cast<const float*>(matrix), shape, static_cast<float*>(packed));
  } else if (dtype == DType::kBF16) {
    Pack(static_cast<const uint16_t*>(matrix), shape, static_cast<uint16_t*>(packed));
  } else {
    PackInt8(static_cast<const float*>(matrix), shape, static_cast<int8_t*>(packed));
  }
}

}  // namespace bastion::kernels
