// Reads the mixture of experts of a config.json. Internal to common/hub.
#ifndef BASTION_COMMON_HUB_EXPERTS_CONFIG_H_
#define BASTION_COMMON_HUB_EXPERTS_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/json_file.h"
#include "common/hub/model_config.h"

namespace bastion::hub {

// The fields that a family with experts has.
[[nodiscard]] std::vector<std::string> ExpertFields();

[[nodiscard]] absl::StatusOr<ExpertsConfig> ReadExperts(const JsonObject& json);

// For each layer, whether it has experts: every decoder_sparse_step-th layer, unless
// mlp_only_layers lists it.
[[nodiscard]] absl::StatusOr<std::vector<bool>> ReadExpertLayers(const JsonObject& json,
                                                                 int layers);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_EXPERTS_CONFIG_H_
