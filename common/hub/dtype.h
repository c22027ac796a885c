// Element types of checkpoint tensors. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_DTYPE_H_
#define BASTION_COMMON_HUB_DTYPE_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace bastion::hub {

enum class DType { kF32, kBF16, kF16 };

[[nodiscard]] constexpr size_t SizeOf(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// As safetensors writes it: F32, BF16, F16. Nullopt for every other type.
[[nodiscard]] constexpr std::optional<DType> DTypeFromSafetensors(std::string_view name) {
  if (name == "F32") return DType::kF32;
  if (name == "BF16") return DType::kBF16;
  if (name == "F16") return DType::kF16;
  return std::nullopt;
}

// As config.json writes it: float32, bfloat16, float16.
[[nodiscard]] constexpr std::optional<DType> DTypeFromConfig(std::string_view name) {
  if (name == "float32") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  return std::nullopt;
}

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_DTYPE_H_
