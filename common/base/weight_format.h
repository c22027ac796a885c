// WeightFormat: how packed weights are stored. Activations and the tensors of checkpoints have a
// DType instead (common/base/dtype.h). Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_WEIGHT_FORMAT_H_
#define BASTION_COMMON_BASE_WEIGHT_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace bastion {

enum class WeightFormat { kBF16, kInt8, kF32 };

// All of them, in the order of reports.
inline constexpr WeightFormat kWeightFormats[] = {WeightFormat::kBF16, WeightFormat::kInt8,
                                                  WeightFormat::kF32};

// Bits of one weight, without scales.
[[nodiscard]] constexpr int Bits(WeightFormat format) {
  constexpr int kBits[] = {16, 8, 32};
  return kBits[static_cast<size_t>(format)];
}

// Name in flags and reports, e.g. "bf16".
[[nodiscard]] constexpr const char* Name(WeightFormat format) {
  constexpr const char* kNames[] = {"bf16", "int8", "fp32"};
  return kNames[static_cast<size_t>(format)];
}

// The format with this name. Nullopt for any other name.
[[nodiscard]] constexpr std::optional<WeightFormat> WeightFormatFromName(std::string_view name) {
  for (const WeightFormat format : kWeightFormats) {
    if (name == Name(format)) return format;
  }
  return std::nullopt;
}

// Bytes of one weight, perhaps a fraction. For estimates.
[[nodiscard]] constexpr double BytesPerWeight(WeightFormat format) { return Bits(format) / 8.0; }

// Bytes of `weights` weights, next to each other. Rounded up to whole bytes.
[[nodiscard]] constexpr size_t Bytes(WeightFormat format, int64_t weights) {
  return (static_cast<size_t>(weights) * Bits(format) + 7) / 8;
}

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_WEIGHT_FORMAT_H_
