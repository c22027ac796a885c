// ModelConfig: the checked contents of a checkpoint's config.json, as plain data.
// Supports the target Qwen3ForCausalLM and z-lab's DFlash drafter (a Qwen3 config with block_size,
// num_target_layers and dflash_config). ReadModelConfig rejects every feature that the engines do
// not implement (biases, scaled rotary embeddings, other activations), so that no checkpoint runs
// with wrong results. Thread-safe: plain data.
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

// The fields that only DFlash drafters have (DFlash, arXiv 2602.06036).
struct DFlashConfig {
  int block_size = 0;         // Tokens of one draft forward: the root and P = block_size - 1 masks.
  int num_target_layers = 0;  // L of the target that the drafter was trained for.
  // The target layers whose concatenated outputs are the features: F = size * hidden.
  std::vector<int> target_layer_ids;
  TokenId mask_token = 0;
  // True: in layers with a sliding window, a position of the block attends only to the block's
  // positions up to itself. The authors' code does this unless the config has `is_causal: false`.
  // Full layers always attend to the whole block.
  bool causal_windows = true;
};

struct SpecialTokens {
  std::vector<TokenId> eos;  // From config.json and generation_config.json, in ascending order.
  std::vector<TokenId> bos;  // Empty or one token.
};

struct ModelConfig {
  ModelKind kind = ModelKind::kTarget;
  std::string architecture;
  ModelDims dims;  // bytes_per_element belongs to `dtype`.
  int max_positions = 0;
  double rms_norm_eps = 0;
  double rope_theta = 0;
  bool tie_word_embeddings = false;
  DType dtype = DType::kF32;  // The type that the config names. A tensor may have another type.
  // For each layer, how many tokens a token attends to, itself included. 0: all.
  std::vector<int> sliding_windows;
  SpecialTokens special;
  DFlashConfig dflash;  // Used for drafters only.
};

// Reads folder/config.json and, if it exists, folder/generation_config.json. Errors:
//   NOT_FOUND         no config.json
//   INVALID_ARGUMENT  not JSON, an unknown architecture, or a missing or invalid value
//   UNIMPLEMENTED     a known architecture with a feature that the engines do not implement
[[nodiscard]] absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& folder);

// The target layers that a DFlash drafter with `draft_layers` layers reads if its config lists
// none: evenly spaced between layer 1 and the third layer from the top, rounded half to even. A
// single draft layer reads the middle layer.
// REQUIRES: draft_layers >= 1, target_layers >= 1.
[[nodiscard]] std::vector<int> DefaultTargetLayerIds(int target_layers, int draft_layers);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_MODEL_CONFIG_H_
