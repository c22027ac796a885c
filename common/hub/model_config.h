// What a checkpoint's config.json says, as plain data that has been checked.
//
// Known are the target Qwen3ForCausalLM and z-lab's DFlash drafter (a Qwen3 config with block_size,
// num_target_layers and dflash_config). Everything an engine would have to do differently and does
// not (biases, scaled rotary embeddings, other activations) is refused here, so that no checkpoint
// is run wrongly in silence. Thread-safe: plain data.
#ifndef BASTION_COMMON_HUB_MODEL_CONFIG_H_
#define BASTION_COMMON_HUB_MODEL_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "common/stages/stage_data.h"

namespace bastion::hub {

enum class ModelKind { kTarget, kDrafter };

// The part that only DFlash drafters have (method: DFlash, arXiv 2602.06036).
struct DFlashConfig {
  int block_size = 0;         // Rows of one draft forward: the root and P = block_size - 1 masks.
  int num_target_layers = 0;  // L of the target it was trained for.
  // The target layers whose output rows, put side by side, are the features: F = size * hidden.
  std::vector<int> target_layer_ids;
  TokenId mask_token = 0;
  // Whether a block row of a sliding-window layer sees the block only up to itself: what the
  // authors' code does unless the config says `is_causal: false`. Full layers always see the whole
  // block.
  bool causal_windows = true;
};

struct SpecialTokens {
  std::vector<TokenId> eos;  // Ascending; of config.json and generation_config.json together.
  std::vector<TokenId> bos;  // None or one.
};

struct ModelConfig {
  ModelKind kind = ModelKind::kTarget;
  std::string architecture;
  ModelDims dims;  // bytes_per_element is that of `dtype`.
  int max_positions = 0;
  double rms_norm_eps = 0;
  double rope_theta = 0;
  bool tie_word_embeddings = false;
  DType dtype = DType::kF32;  // The one the config names; each tensor has its own.
  // One entry a layer: tokens back a row may look, itself included; 0 is all of them.
  std::vector<int> sliding_windows;
  SpecialTokens special;
  DFlashConfig dflash;  // Meaningful for drafters only.
};

// Reads folder/config.json and, where there is one, folder/generation_config.json.
//   NOT_FOUND         no config.json
//   INVALID_ARGUMENT  not JSON, an unknown architecture, a value missing, of the wrong type or
//   range UNIMPLEMENTED     a known architecture with a feature that this engine does not have
[[nodiscard]] absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& folder);

// The target layers a DFlash drafter of `draft_layers` layers reads where its config names none:
// evenly spread between layer 1 and the third from the top, rounded half to even.
// REQUIRES: draft_layers >= 1, target_layers >= 1.
[[nodiscard]] std::vector<int> DefaultTargetLayerIds(int target_layers, int draft_layers);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_MODEL_CONFIG_H_
