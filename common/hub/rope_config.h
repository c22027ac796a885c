// Reads the rotary embedding of a config.json. Internal to common/hub.
#ifndef BASTION_COMMON_HUB_ROPE_CONFIG_H_
#define BASTION_COMMON_HUB_ROPE_CONFIG_H_

#include "absl/status/statusor.h"
#include "common/hub/json_file.h"
#include "common/hub/model_family.h"

namespace bastion::hub {

// The fields are in rope_parameters (since version 5 of `transformers`), or in rope_scaling and the
// family's own fields. UNIMPLEMENTED for types and fields that are not known; INVALID_ARGUMENT for
// invalid values. REQUIRES: config.dims and config.max_positions are set.
[[nodiscard]] absl::StatusOr<RopeConfig> ReadRope(const JsonObject& json, const ModelFamily& family,
                                                  const ModelConfig& config);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_ROPE_CONFIG_H_
