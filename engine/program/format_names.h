// Turns the values of --weights and --dtype into formats. Only main functions and tools use it.
#ifndef BASTION_ENGINE_PROGRAM_FORMAT_NAMES_H_
#define BASTION_ENGINE_PROGRAM_FORMAT_NAMES_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/model/formats.h"

namespace bastion::nn {

// Without a name, the activations follow from the weights (FormatsFor), and the weights from the
// activations. Both are bf16 without any name.
struct FormatNames {
  std::string weights = {};      // The name of a WeightFormat, or empty.
  std::string activations = {};  // "fp32" or "bf16", or empty.
};

// INVALID_ARGUMENT for an unknown name. A target in a format with fewer bits is a model of its own:
// speculation reproduces its text, not that of the original weights. Until the next release, a
// format of weights that is no type of activations may also be the name of the activations; then a
// warning says what to write.
[[nodiscard]] absl::StatusOr<Formats> ParseFormats(const FormatNames& names);
// The same for a drafter, whose weights may also be "auto": int8 on a CPU with int8 instructions,
// else bf16. The format changes the drafts and therefore the speed, but never the output.
[[nodiscard]] absl::StatusOr<Formats> ParseDraftFormats(FormatNames names, bool on_gpu = false);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_PROGRAM_FORMAT_NAMES_H_
