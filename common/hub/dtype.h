// Element types of tensors in files. Weights are floats; integers are for tables.
// Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_DTYPE_H_
#define BASTION_COMMON_HUB_DTYPE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace bastion::hub {

enum class DType { kF32, kBF16, kF16, kU16, kI32, kU32, kI64, kU64 };

struct DTypeFacts {
  const char* name;  // As safetensors writes it.
  size_t bytes;
};
// By DType.
inline constexpr std::array<DTypeFacts, 8> kDTypes = {{{"F32", 4},
                                                       {"BF16", 2},
                                                       {"F16", 2},
                                                       {"U16", 2},
                                                       {"I32", 4},
                                                       {"U32", 4},
                                                       {"I64", 8},
                                                       {"U64", 8}}};

[[nodiscard]] constexpr const char* Name(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].name;
}
[[nodiscard]] constexpr size_t SizeOf(DType dtype) {
  return kDTypes[static_cast<size_t>(dtype)].bytes;
}
[[nodiscard]] constexpr bool IsFloat(DType dtype) { return dtype <= DType::kF16; }

// That of a C++ type.
template <typename T>
constexpr DType DTypeOf() = delete;
template <>
constexpr DType DTypeOf<float>() {
  return DType::kF32;
}
template <>
constexpr DType DTypeOf<uint16_t>() {
  return DType::kU16;
}
template <>
constexpr DType DTypeOf<int32_t>() {
  return DType::kI32;
}
template <>
constexpr DType DTypeOf<uint32_t>() {
  return DType::kU32;
}
template <>
constexpr DType DTypeOf<int64_t>() {
  return DType::kI64;
}
template <>
constexpr DType DTypeOf<uint64_t>() {
  return DType::kU64;
}

// Nullopt for a name that is none of kDTypes.
[[nodiscard]] constexpr std::optional<DType> DTypeFromSafetensors(std::string_view name) {
  for (size_t i = 0; i < kDTypes.size(); ++i) {
    if (name == kDTypes[i].name) return static_cast<DType>(i);
  }
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
