// Reads the config.json of Medusa heads. It says almost nothing: the tensors decide how many heads
// there are (drafter_service/draft/medusa.h). Published configs often name fewer heads than the
// checkpoint has. Internal to common/hub.
#ifndef BASTION_COMMON_HUB_MEDUSA_CONFIG_H_
#define BASTION_COMMON_HUB_MEDUSA_CONFIG_H_

#include "absl/status/statusor.h"
#include "common/hub/json_file.h"
#include "common/hub/model_config.h"

namespace bastion::hub {

// Whether this is the config of Medusa heads: they are the only models with medusa_num_heads.
[[nodiscard]] bool IsMedusa(const JsonObject& json);

// dims.hidden and dims.vocabulary are 0 unless the config names them. All other dims are 0.
[[nodiscard]] absl::StatusOr<ModelConfig> ReadMedusa(const JsonObject& json);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_MEDUSA_CONFIG_H_
