#include "engine/program/format_names.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace bastion::nn {
namespace {

constexpr char kAuto[] = "auto";

std::optional<DType> ActivationsFromName(const std::string& name) {
  for (const DType type : {DType::kF32, DType::kBF16}) {
    if (name == Name(type)) return type;
  }
  return std::nullopt;
}

// "fp32, bf16, int8": the names of all formats.
std::string FormatList() {
  std::string list;
  for (const WeightFormat format : kWeightFormats) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", Name(format));
  }
  return list;
}

// --dtype once named the format of the weights. Moves such a name to where it belongs.
void MoveOldName(FormatNames& names) {
  const bool old =
      names.activations == kAuto || (WeightFormatFromName(names.activations).has_value() &&
                                     !ActivationsFromName(names.activations).has_value());
  if (!old || !names.weights.empty()) return;
  LOG(WARNING) << "--dtype " << names.activations << " is now --weights " << names.activations
               << "; the old spelling goes with the next release";
  names.weights = std::exchange(names.activations, "");
}

}  // namespace

absl::StatusOr<Formats> ParseFormats(const FormatNames& names) {
  FormatNames named = names;
  MoveOldName(named);
  if (named.weights.empty()) named.weights = named.activations;
  const std::optional<DType> activations = ActivationsFromName(named.activations);
  if (!named.activations.empty() && !activations.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype is ", named.activations, "; it must be fp32 or bf16"));
  }
  if (named.weights.empty()) return Formats();
  const std::optional<WeightFormat> weights = WeightFormatFromName(named.weights);
  if (!weights.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("--weights is ", named.weights,
                                                   "; it must be one of ", FormatList(),
                                                   ", or for a drafter auto"));
  }
  Formats formats = FormatsFor(*weights);
  formats.activations = activations.value_or(formats.activations);
  return formats;
}

absl::StatusOr<Formats> ParseDraftFormats(FormatNames names, bool on_gpu) {
  MoveOldName(names);
  if (names.weights == kAuto) {
    const bool int8 = !on_gpu && kernels::HasInt8Instructions();
    names.weights = Name(int8 ? WeightFormat::kInt8 : WeightFormat::kBF16);
  }
  return ParseFormats(names);
}

}  // namespace bastion::nn
