// ModelFamily: what distinguishes the architectures that the engines run, as data. A family says
// which fields of config.json it reads, what their defaults are, what its blocks compute, and how
// its tensors are named. Nothing else in the engines depends on the name of an architecture.
//
// Thread-safe: immutable.
#ifndef BASTION_COMMON_HUB_MODEL_FAMILY_H_
#define BASTION_COMMON_HUB_MODEL_FAMILY_H_

#include <optional>
#include <string>
#include <vector>

#include "common/hub/config_fields.h"
#include "common/hub/model_config.h"

namespace bastion::hub {

// The values of fields that are absent, as in `transformers`.
struct FamilyDefaults {
  int max_positions = 0;
  std::optional<int> head_dim;  // Not set: hidden / query heads.
  double norm_epsilon = 0;
  double rotary_fraction = 1;  // Part of a head that rotates.
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  bool tied = false;       // tie_word_embeddings
  int sliding_window = 0;  // Only if keys.window_everywhere.
};

// The names of fields that differ between families. Empty: the family has no such field.
struct FamilyKeys {
  std::string norm_epsilon = "rms_norm_eps";
  std::string rope_theta = "rope_theta";
  std::string rotary_fraction = {};
  std::string attention_bias = {};
  std::string parallel_residual = {};
  bool experts = false;            // The family reads the fields of experts (experts_config.h).
  bool window_everywhere = false;  // sliding_window alone sets the window, of all layers.
  bool pairs = false;              // The family reads the fields of DFlash 2 (dflash_config.h).
  bool rotary_layers = false;      // no_rope_layers lists layers without rotary embedding.
  // The object in config.json that has the fields of the decoder. Empty: config.json itself.
  std::string decoder = {};
};

struct ModelFamily {
  std::string architecture;
  ModelKind kind = ModelKind::kTarget;
  BlockConfig blocks;  // Without what depends on the config: epsilon, rope and optional biases.
  TensorNames names;
  FamilyDefaults defaults;
  FamilyKeys keys;
  std::vector<std::string> fields;  // Fields that only some families have.
  std::vector<FixedField> fixed;    // Fields with only one supported value.
  // The same for the fields beside keys.decoder, if the family has it.
  std::vector<std::string> outer_fields;
  std::vector<FixedField> outer_fixed;
};

// All families, in the order in which messages list them.
[[nodiscard]] const std::vector<ModelFamily>& ModelFamilies();

// The family of an architecture, or null if the engines do not implement it.
[[nodiscard]] const ModelFamily* FindFamily(const std::string& architecture);

// Every field that the family reads or checks in the object with the fields of the decoder.
[[nodiscard]] std::vector<std::string> FieldsOf(const ModelFamily& family);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_MODEL_FAMILY_H_
