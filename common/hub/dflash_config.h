// Reads the fields that only DFlash drafters have from their config.json. Internal to common/hub.
//
// z-lab's files have the fields of the decoder in config.json and most other fields in its object
// dflash_config. The library speculators puts the fields of the decoder into the object
// transformer_layer_config, and all other fields beside it. Both name the architecture of version 2
// DFlash2DraftModel.
#ifndef BASTION_COMMON_HUB_DFLASH_CONFIG_H_
#define BASTION_COMMON_HUB_DFLASH_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/hub/json_file.h"
#include "common/hub/model_config.h"

namespace bastion::hub {

struct ModelFamily;

inline constexpr const char* kDflashArchitecture = "DFlashDraftModel";
inline constexpr const char* kDflash2Architecture = "DFlash2DraftModel";
// The family of the files that speculators writes, whatever architecture they name.
inline constexpr const char* kDflash2Speculator = "DFlash2Speculator";
// The object with the fields of the decoder in files of speculators.
inline constexpr const char* kSpeculatorsDecoder = "transformer_layer_config";

// The fields of a DFlash 2 drafter of speculators, outside the fields of the decoder.
[[nodiscard]] std::vector<std::string> Dflash2SpeculatorFields();

// Reads config.drafter.dflash and config.blocks.convolution from the whole config.json. REQUIRES:
// config.dims is set.
[[nodiscard]] absl::Status ReadDFlash(const JsonObject& json, const ModelFamily& family,
                                      ModelConfig& config);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_DFLASH_CONFIG_H_
