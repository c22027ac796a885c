// Element types of tensors in checkpoints, kernels, features and messages. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_DTYPE_H_
#define BASTION_COMMON_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace bastion {

// Activations are fp32 or bf16, and checkpoints store weights as floats. The integer types occur in
// tables, e.g. common/prior/transition_table.h. Packed weights have a WeightFormat.
enum class DType { kF32, kBF16, kF16, kU16, kI32, kU32, kI64, kU64 };

// Bytes of `elements` elements.
[[nodiscard]] constexpr size_t Bytes(DType dtype, int64_t elements) {
  constexpr int kBytes[] = {4, 2, 2, 2, 4, 4, 8, 8};
  return static_cast<size_t>(elements) * kBytes[static_cast<size_t>(dtype)];
}

[[nodiscard]] constexpr bool IsFloat(DType dtype) { return dtype <= DType::kF16; }

// Name in flags and reports, e.g. "bf16".
[[nodiscard]] constexpr const char* Name(DType dtype) {
  constexpr const char* kNames[] = {"fp32",  "bf16",   "fp16",  "uint16",
                                    "int32", "uint32", "int64", "uint64"};
  return kNames[static_cast<size_t>(dtype)];
}

// Name in a safetensors header, e.g. "BF16".
[[nodiscard]] constexpr const char* SafetensorsName(DType dtype) {
  constexpr const char* kNames[] = {"F32", "BF16", "F16", "U16", "I32", "U32", "I64", "U64"};
  return kNames[static_cast<size_t>(dtype)];
}

// Element types that this project reads from safetensors files.
inline constexpr DType kSafetensorsDTypes[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kU16,
                                               DType::kI32, DType::kU32,  DType::kI64, DType::kU64};

// Nullopt for any other name, including types of safetensors that this project does not read.
[[nodiscard]] constexpr std::optional<DType> DTypeFromSafetensors(std::string_view name) {
  for (const DType dtype : kSafetensorsDTypes) {
    if (name == SafetensorsName(dtype)) return dtype;
  }
  return std::nullopt;
}

// `name` as in config.json: float32, bfloat16 or float16. Nullopt for any other name.
[[nodiscard]] constexpr std::optional<DType> DTypeFromConfig(std::string_view name) {
  if (name == "float32") return DType::kF32;
  if (name == "bfloat16") return DType::kBF16;
  if (name == "float16") return DType::kF16;
  return std::nullopt;
}

// The element type of a C++ type.
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

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_DTYPE_H_
