// Reads the fields that only EAGLE-3 and P-EAGLE drafters have from their config.json. Some of them
// are read for SpecBlock drafters too (specblock_config.h). Internal to common/hub.
//
// Four programs write such drafters. SpecForge and AngelSlim name architectures of their own.
// SafeAILab's folders name the architecture of the block or none; the field draft_vocab_size tells
// them from targets. The library speculators puts the fields of the block into the object
// transformer_layer_config, and the other fields beside it.
//
// A P-EAGLE drafter is such a drafter whose later rows read a mask token. speculators names an
// architecture of its own and the token in mask_token_id. Other programs name the architecture of
// EAGLE-3; the field ptd_token_id or pard_token, which vLLM reads, tells them apart.
#ifndef BASTION_COMMON_HUB_EAGLE_CONFIG_H_
#define BASTION_COMMON_HUB_EAGLE_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/hub/json_file.h"
#include "common/hub/model_config.h"

namespace bastion::hub {

struct ModelFamily;

// The architecture of a drafter that names that of its block, or none.
inline constexpr const char* kEagleArchitecture = "LlamaForCausalLMEagle3";
inline constexpr const char* kDraftVocabulary = "draft_vocab_size";

// The fields that ReadDraftHead reads.
[[nodiscard]] std::vector<std::string> DraftHeadFields();

// Reads config.drafter.head. REQUIRES: config.dims is set.
[[nodiscard]] absl::Status ReadDraftHead(const JsonObject& json, ModelConfig& config);

// The fields that all EAGLE-3 and P-EAGLE drafters may have, outside the fields of the block.
[[nodiscard]] std::vector<std::string> EagleFields();

// The object with the fields of the decoder: `json`, or its object family.keys.decoder. Then the
// fields beside that object are checked, and the type of the weights may be one of them.
[[nodiscard]] absl::StatusOr<JsonObject> DecoderFields(const JsonObject& json,
                                                       const ModelFamily& family);

// Reads config.drafter.head and eagle from the whole config.json. Sets config.kind to
// kParallelEagle if there is a mask token. REQUIRES: config.dims is set.
[[nodiscard]] absl::Status ReadEagle(const JsonObject& json, const ModelFamily& family,
                                     ModelConfig& config);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_EAGLE_CONFIG_H_
