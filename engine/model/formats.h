// Formats: the two types of an engine's numbers. Plain data.
#ifndef BASTION_ENGINE_MODEL_FORMATS_H_
#define BASTION_ENGINE_MODEL_FORMATS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/dtype.h"
#include "common/base/weight_format.h"

namespace bastion::nn {

struct Formats {
  // fp32 or bf16: the KV cache, the features, the embedding table, and on a GPU the inputs of
  // products.
  DType activations = DType::kBF16;
  WeightFormat weights = WeightFormat::kBF16;  // The weight matrices.

  friend bool operator==(const Formats&, const Formats&) = default;
};

// The formats of an engine that chooses only that of its weights: fp32 activations with fp32
// weights, else bf16.
[[nodiscard]] constexpr Formats FormatsFor(WeightFormat weights) {
  return {weights == WeightFormat::kF32 ? DType::kF32 : DType::kBF16, weights};
}

// The format of matrices that are rounded no further than activations: a router, whose rounding
// could change decisions, and matrices for inputs that are not normalized.
[[nodiscard]] constexpr WeightFormat UnquantizedFormat(const Formats& formats) {
  return formats.activations == DType::kF32 ? WeightFormat::kF32 : WeightFormat::kBF16;
}

// For logs and device names: "int8", or "bf16, activations fp32" if the pair is not FormatsFor().
[[nodiscard]] inline std::string Describe(const Formats& formats) {
  if (formats == FormatsFor(formats.weights)) return Name(formats.weights);
  return absl::StrCat(Name(formats.weights), ", activations ", Name(formats.activations));
}

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_FORMATS_H_
