// Writes the config.json of a GGUF file's model. Internal to common/hub. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_GGUF_CONFIG_H_
#define BASTION_COMMON_HUB_GGUF_CONFIG_H_

#include <nlohmann/json.hpp>

#include "absl/status/statusor.h"

namespace bastion::hub {

class GgufModel;

// A tensor [D / 2] with divisors of the rotary frequencies, as Llama 3.1 has them.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";

// The config in the format of `transformers`, which ReadModelConfig checks. INVALID_ARGUMENT for
// missing or invalid metadata, UNIMPLEMENTED for entries of the architecture that are not known.
[[nodiscard]] absl::StatusOr<nlohmann::json> GgufConfig(const GgufModel& model);

// D. INVALID_ARGUMENT for missing or invalid metadata.
[[nodiscard]] absl::StatusOr<int> GgufHeadDim(const GgufModel& model);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_GGUF_CONFIG_H_
