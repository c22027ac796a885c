// Reads the fields that only SpecBlock drafters have from their config.json. Internal to
// common/hub.
//
// The authors name two architectures for one model: LlamaForCausalLMSpecBlock and
// LlamaForCausalLMSpecBlockShift. The field block_positions is this project's own.
#ifndef BASTION_COMMON_HUB_SPECBLOCK_CONFIG_H_
#define BASTION_COMMON_HUB_SPECBLOCK_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/hub/json_file.h"
#include "common/hub/model_config.h"

namespace bastion::hub {

// The fields that SpecBlock drafters have beside the fields of their blocks.
[[nodiscard]] std::vector<std::string> SpecBlockFields();

// Reads config.drafter.head and specblock. REQUIRES: config.dims is set.
[[nodiscard]] absl::Status ReadSpecBlock(const JsonObject& json, ModelConfig& config);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_SPECBLOCK_CONFIG_H_
