// ModelConfig: the checked contents of a checkpoint's config.json, as plain data.
//
// Supports the targets of model_family.cc, DFlash drafters (dflash_config.h), EAGLE-3 and P-EAGLE
// drafters (eagle_config.h), SpecBlock drafters (specblock_config.h) and Medusa heads
// (medusa_config.h). ReadModelConfig rejects every
// feature that the engines do not implement, and every field that they do not know, so that no
// checkpoint runs with wrong results. Thread-safe: plain data.
#ifndef BASTION_COMMON_HUB_MODEL_CONFIG_H_
#define BASTION_COMMON_HUB_MODEL_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/dtype.h"
#include "common/base/ids.h"
#include "common/hub/tensor_names.h"
#include "common/stages/stage_data.h"

namespace bastion::hub {

enum class ModelKind { kTarget, kDflash, kEagle, kSpecBlock, kParallelEagle, kMedusa };

// kRms: x / rms(x) * weight. kLayer: (x − mean) / deviation * weight + bias.
enum class NormKind { kRms, kLayer };

// kGatedSilu: down(silu(gate(x)) * up(x)). kGelu: down(gelu(up(x))).
enum class MlpKind { kGatedSilu, kGelu };

// How Llama 3.1 stretches the rotary embedding beyond its first context length (rope_type llama3).
// With n rotations of a pair within `original_positions`: below `low_rotations`, its frequency is
// divided by `factor`; above `high_rotations`, it is unchanged; in between, it is interpolated.
struct Llama3Scaling {
  double factor = 1;
  double low_rotations = 1;   // low_freq_factor
  double high_rotations = 4;  // high_freq_factor
  int original_positions = 0;
};

// YaRN (arXiv 2309.00071, rope_type yarn): between the pairs that rotate `beta_fast` and
// `beta_slow` times within `original_positions`, the division of the frequency by `factor` fades
// in.
struct YarnScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  int original_positions = 0;
  double attention_factor = 1;  // Multiplies queries and keys.
  bool truncate = true;         // The fade begins and ends at whole pairs.
};

struct RopeConfig {
  double theta = 0;
  int dims = 0;  // The leading elements of a head that rotate. Even, at most D.
  // Divides all frequencies (rope_type linear).
  double linear_factor = 1;
  std::optional<Llama3Scaling> llama3;
  std::optional<YarnScaling> yarn;
  // Divisors of the frequencies, which GGUF files have instead of `llama3`. Empty or dims / 2.
  std::vector<double> divisors;
  std::vector<bool> layers;  // For each layer, whether queries and keys rotate.
};

// A mixture of experts instead of the MLP (Qwen3-MoE): a router chooses experts for each row, and
// the row gets the weighted sum of their MLPs (kGatedSilu).
struct ExpertsConfig {
  int count = 0;  // E. 0: the model has no experts.
  int chosen = 0;
  int intermediate = 0;    // I of an expert.
  bool normalize = false;  // The weights of the chosen experts add up to 1.
};

// Drafters whose rows read more than a token: normed rows beside each other.
struct JoinConfig {
  int parts = 0;  // Normed rows that are joined. 0: none.
  // Queries, keys and values of the first block are projected from the joined rows, not from the
  // normed residual stream (EAGLE-3).
  bool feeds_qkv = false;
  // Not 0: before each block but the first, a row also reads the row before it, among groups of
  // this many rows (the layer shift of SpecBlock).
  int shift_rows = 0;
};

// Convolutions along the rows of a drafted block, before and after attention and the MLP (DFlash
// 2). With D = the projection of the normed row, side s of row r is
//   y[r][c] = Σ_t (base[s][t][c] + D[r][s][t][c / group]) · z[r − t][c],
// over the rows of the same block. The residual stream itself is not convolved.
struct ConvolutionConfig {
  int taps = 0;        // T: the row itself and the rows before it. 0: no convolutions.
  int group = 0;       // Elements of a row that share a coefficient. Divides C.
  int block_rows = 0;  // Rows of a block. A batch consists of whole blocks.
};

// What a decoder block computes.
struct BlockConfig {
  NormKind norm = NormKind::kRms;
  double norm_epsilon = 0;
  MlpKind mlp = MlpKind::kGatedSilu;
  bool query_key_norm = false;  // RMS norm of each head of queries and keys.
  bool qkv_bias = false;        // The matrices of queries, keys and values have biases.
  bool output_bias = false;     // The output matrix of attention has a bias.
  bool mlp_bias = false;        // The matrices of the MLP have biases.
  // False: the MLP reads the sum of the block's input and attention. True: it reads the input.
  bool parallel_residual = false;
  JoinConfig join;
  ConvolutionConfig convolution;
  RopeConfig rope;
  ExpertsConfig experts;  // For the blocks in ModelConfig::expert_layers.
};

// The fields that only DFlash drafters have (DFlash, arXiv 2602.06036). Version 2 adds convolutions
// (ConvolutionConfig), a selector, which scores pairs of candidates, and three scales.
struct DFlashConfig {
  int block_size = 0;  // Tokens of one draft forward: the root and P = block_size - 1 masks.
  // L of the target that the drafter was trained for. 0: the config does not say it.
  int num_target_layers = 0;
  // The target layers whose concatenated outputs are the features: F = size * hidden.
  std::vector<int> target_layer_ids;
  TokenId mask_token = 0;
  // True: in layers with a sliding window, a position of the block attends only to the block's
  // positions up to itself. The authors' code does this unless the config has `is_causal: false`.
  // Full layers always attend to the whole block.
  bool causal_windows = true;
  int selector_rank = 0;        // r: factors of a pair score. 0: no selector.
  int selector_candidates = 0;  // K: the candidates of a position for which it was trained.
  float embedding_scale = 1;    // Multiplies the embeddings of the root and of the masks.
  float output_multiplier = 1;  // Multiplies the logits.
  float logit_cap = 0;          // Then logits become cap · tanh(logit / cap). 0: they do not.
};

// What a drafter with a head of its own predicts, and what it reads of its target. EAGLE-3, P-EAGLE
// and SpecBlock drafters have it.
struct DraftHead {
  // Rows of the head: the tokens that the drafter can predict. dims.vocabulary: all.
  int vocabulary = 0;
  int target_hidden = 0;  // C of the target.
  // The target layers whose concatenated outputs are the features. Empty: DefaultEagleLayers.
  std::vector<int> target_layers;
};

// The fields that only EAGLE-3 and P-EAGLE drafters have (EAGLE-3, arXiv 2503.01840). The config
// does not say everything: the tensors of the checkpoint decide whether the drafter has norms for
// the features, norms for queries and keys, and an embedding of its own.
struct EagleConfig {
  // The residual stream of the block begins with the normed state, not with the state.
  bool norm_before_residual = false;
  // A node passes its normed state to its children, not its state.
  bool norm_output = false;
  // P: the tokens that one forward predicts. More than 1 only for P-EAGLE: later rows of the root
  // read `mask_token` and a learned vector in place of features.
  int positions = 1;
  TokenId mask_token = 0;
};

// The fields that only SpecBlock drafters have. The tensors of the checkpoint decide whether the
// drafter has norms for queries and keys.
struct SpecBlockConfig {
  int positions = 0;  // K: the tokens that one block predicts.
  // The classes of the rank head, which predicts the rank of the target's token. 0: no rank head.
  int rank_classes = 0;
  // False: the rows of a later block have the positions of the rows of the first block. True: they
  // also count the tokens on the path from the root to the token that the block starts from.
  bool path_positions = false;
  // False: only the first row of a block reads the condition and the embedding. Trained for
  // ablations alone.
  bool prefix_broadcast = true;
};

// What only drafters have. Each kind of drafter uses its own part.
struct DrafterConfig {
  DraftHead head;
  DFlashConfig dflash;
  EagleConfig eagle;
  SpecBlockConfig specblock;
};

struct SpecialTokens {
  std::vector<TokenId> eos;  // From config.json and generation_config.json, in ascending order.
  std::vector<TokenId> bos;  // Empty or one token.
};

struct ModelConfig {
  ModelKind kind = ModelKind::kTarget;
  std::string architecture;
  ModelDims dims;  // bytes_per_weight belongs to `dtype`.
  int max_positions = 0;
  BlockConfig blocks;
  TensorNames names;
  bool tie_word_embeddings = false;
  DType dtype = DType::kF32;  // The type that the config names. A tensor may have another type.
  std::vector<bool> expert_layers;  // For each layer, whether it has experts instead of an MLP.
  // For each layer, how many tokens a token attends to, itself included. 0: all.
  std::vector<int> sliding_windows;
  SpecialTokens special;
  DrafterConfig drafter;
};

// Reads folder/config.json and, if it exists, folder/generation_config.json. `folder` may be a GGUF
// file, whose metadata says the same (gguf_model.h). Errors:
//   NOT_FOUND         no config.json
//   INVALID_ARGUMENT  not JSON, an unknown architecture, or a missing or invalid value
//   UNIMPLEMENTED     a known architecture with a feature that the engines do not implement
[[nodiscard]] absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& folder);

// Like ReadModelConfig, but also INVALID_ARGUMENT if the folder contains a drafter.
[[nodiscard]] absl::StatusOr<ModelConfig> ReadTargetConfig(const std::string& folder);

// The target layers that a DFlash drafter with `draft_layers` layers reads if its config lists
// none: evenly spaced between layer 1 and the third layer from the top, rounded half to even. A
// single draft layer reads the middle layer.
// REQUIRES: draft_layers >= 1, target_layers >= 1.
[[nodiscard]] std::vector<int> DefaultTargetLayerIds(int target_layers, int draft_layers);

// The target layers that an EAGLE-3 or SpecBlock drafter reads if its config lists none: one low,
// one in the middle, one high. They are 1, L / 2 - 1 and L - 4 of L layers, because the authors
// count the inputs of layers, and this project counts their outputs. REQUIRES: target_layers >= 5.
[[nodiscard]] std::vector<int> DefaultEagleLayers(int target_layers);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_MODEL_CONFIG_H_
