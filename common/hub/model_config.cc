#include "common/hub/model_config.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/hub/dflash_config.h"
#include "common/hub/eagle_config.h"
#include "common/hub/experts_config.h"
#include "common/hub/json_file.h"
#include "common/hub/medusa_config.h"
#include "common/hub/model_family.h"
#include "common/hub/rope_config.h"
#include "common/hub/specblock_config.h"

namespace bastion::hub {
namespace {

constexpr int kMaxLayers = 10000;
constexpr int kDefaultMaxWindowLayers = 28;  // As in `transformers`.

absl::Status Unsupported(const JsonObject& config, std::string_view what) {
  return absl::UnimplementedError(absl::StrCat(config.origin(), ": ", std::string(what)));
}

// "A, B (targets) or C, D (drafters)"
std::string SupportedArchitectures() {
  std::string targets, drafters;
  for (const ModelFamily& family : ModelFamilies()) {
    std::string& list = family.kind == ModelKind::kTarget ? targets : drafters;
    absl::StrAppend(&list, list.empty() ? "" : ", ", family.architecture);
  }
  return absl::StrCat(targets, " (targets) or ", drafters, " (drafters)");
}

absl::StatusOr<const ModelFamily*> ReadFamily(const JsonObject& json) {
  const nlohmann::json* names = json.Find("architectures");
  const bool eagle = json.Has(kDraftVocabulary);
  if (names == nullptr && eagle) return FindFamily(kEagleArchitecture);
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    return json.KeyError("architectures", "must be a list that begins with a name");
  }
  std::string architecture = names->front().get<std::string>();
  if (architecture == kDflash2Architecture && json.Has(kSpeculatorsDecoder)) {
    architecture = kDflash2Speculator;
  }
  const ModelFamily* family = FindFamily(architecture);
  if (family == nullptr) {
    return json.KeyError("architectures", absl::StrCat("names '", architecture, "'; it must be ",
                                                       SupportedArchitectures()));
  }
  if (family->kind != ModelKind::kTarget) return family;
  // Some drafters name the architecture of their blocks.
  if (json.Has("block_size") || json.Has("dflash_config")) {
    return FindFamily(kDflashArchitecture);
  }
  return eagle ? FindFamily(kEagleArchitecture) : family;
}

absl::Status CheckHeads(const JsonObject& json, const ModelDims& dims) {
  if (dims.query_heads % dims.kv_heads != 0) {
    return json.KeyError("num_key_value_heads",
                         absl::StrCat("is ", dims.kv_heads, ", which does not divide the ",
                                      dims.query_heads, " query heads"));
  }
  if (dims.head_dim % 2 != 0) {
    return json.KeyError(
        "head_dim", absl::StrCat("is ", dims.head_dim, "; rotary embeddings need an even number"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> ReadHeadDim(const JsonObject& json, const ModelFamily& family,
                                const ModelDims& dims) {
  if (json.Has("head_dim")) return json.GetPositive<int>("head_dim");
  if (family.defaults.head_dim.has_value()) return *family.defaults.head_dim;
  if (dims.hidden % dims.query_heads == 0) return dims.hidden / dims.query_heads;
  return json.KeyError("hidden_size",
                       absl::StrCat("is ", dims.hidden, ", which is not a multiple of the ",
                                    dims.query_heads, " attention heads"));
}

absl::Status ReadDims(const JsonObject& json, const ModelFamily& family, ModelConfig& config) {
  ModelDims& dims = config.dims;
  ASSIGN_OR_RETURN(dims.layers, json.GetPositive<int>("num_hidden_layers"));
  if (dims.layers > kMaxLayers) {
    return json.KeyError("num_hidden_layers",
                         absl::StrCat("is ", dims.layers, "; it must be at most ", kMaxLayers));
  }
  ASSIGN_OR_RETURN(dims.hidden, json.GetPositive<int>("hidden_size"));
  ASSIGN_OR_RETURN(dims.query_heads, json.GetPositive<int>("num_attention_heads"));
  ASSIGN_OR_RETURN(dims.kv_heads, json.GetPositive("num_key_value_heads", dims.query_heads));
  ASSIGN_OR_RETURN(dims.head_dim, ReadHeadDim(json, family, dims));
  ASSIGN_OR_RETURN(dims.intermediate, json.GetPositive<int>("intermediate_size"));
  ASSIGN_OR_RETURN(dims.vocabulary, json.GetPositive<int>("vocab_size"));
  ASSIGN_OR_RETURN(config.max_positions,
                   json.GetPositive("max_position_embeddings", family.defaults.max_positions));
  ASSIGN_OR_RETURN(config.tie_word_embeddings,
                   json.Get<bool>("tie_word_embeddings", family.defaults.tied));
  return CheckHeads(json, dims);
}

// Replaces `value` with that of `key`, if the family has the key and the config sets it.
absl::Status ReadFlag(const JsonObject& json, const std::string& key, bool& value) {
  if (key.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(value, json.Get<bool>(key.c_str(), value));
  return absl::OkStatus();
}

absl::Status ReadBlocks(const JsonObject& json, const ModelFamily& family, ModelConfig& config) {
  BlockConfig& blocks = config.blocks;
  blocks = family.blocks;
  ASSIGN_OR_RETURN(blocks.norm_epsilon, json.GetPositive(family.keys.norm_epsilon.c_str(),
                                                         family.defaults.norm_epsilon));
  RETURN_IF_ERROR(ReadFlag(json, family.keys.attention_bias, blocks.qkv_bias));
  RETURN_IF_ERROR(ReadFlag(json, family.keys.attention_bias, blocks.output_bias));
  RETURN_IF_ERROR(ReadFlag(json, family.keys.parallel_residual, blocks.parallel_residual));
  ASSIGN_OR_RETURN(blocks.rope, ReadRope(json, family, config));
  config.expert_layers.assign(config.dims.layers, false);
  if (!family.keys.experts) return absl::OkStatus();
  ASSIGN_OR_RETURN(blocks.experts, ReadExperts(json));
  ASSIGN_OR_RETURN(config.expert_layers, ReadExpertLayers(json, config.dims.layers));
  return absl::OkStatus();
}

// no_rope_layers has a 0 for each layer without rotary embedding. Without the list, this is every
// no_rope_layer_interval-th layer.
absl::Status ReadRotaryLayers(const JsonObject& json, const ModelFamily& family,
                              ModelConfig& config) {
  constexpr int kDefaultInterval = 4;  // As in `transformers`.
  const int layers = config.dims.layers;
  config.blocks.rope.layers.assign(layers, true);
  if (!family.keys.rotary_layers) return absl::OkStatus();
  ASSIGN_OR_RETURN(const int interval,
                   json.GetPositive("no_rope_layer_interval", kDefaultInterval));
  ASSIGN_OR_RETURN(const std::vector<int> listed, json.Integers("no_rope_layers"));
  const bool by_interval = !json.Has("no_rope_layers");
  if (!by_interval && static_cast<int>(listed.size()) < layers) {
    return json.KeyError("no_rope_layers",
                         absl::StrCat("has ", listed.size(), " entries for ", layers, " layers"));
  }
  for (int layer = 0; layer < layers; ++layer) {
    config.blocks.rope.layers[layer] =
        by_interval ? (layer + 1) % interval != 0 : listed[layer] != 0;
  }
  return absl::OkStatus();
}

MlpDims MlpOf(const ModelConfig& config) {
  const BlockConfig& blocks = config.blocks;
  MlpDims mlp;
  mlp.matrices = blocks.mlp == MlpKind::kGatedSilu ? 3 : 2;
  mlp.expert_layers =
      static_cast<int>(std::count(config.expert_layers.begin(), config.expert_layers.end(), true));
  if (mlp.expert_layers == 0) return mlp;
  mlp.experts = blocks.experts.count;
  mlp.chosen = blocks.experts.chosen;
  mlp.expert_intermediate = blocks.experts.intermediate;
  return mlp;
}

absl::Status ReadDType(const JsonObject& json, ModelConfig& config) {
  const char* key = json.Has("dtype") ? "dtype" : "torch_dtype";
  ASSIGN_OR_RETURN(const std::string name, json.Get<std::string>(key, "float32"));
  const std::optional<DType> dtype = DTypeFromConfig(name);
  if (!dtype.has_value()) {
    return json.KeyError(key,
                         absl::StrCat("is '", name, "'; it must be float32, bfloat16 or float16"));
  }
  config.dtype = *dtype;
  config.dims.bytes_per_weight = static_cast<double>(Bytes(*dtype, 1));
  return absl::OkStatus();
}

// The type of each layer, from the config or the default of `transformers`.
absl::StatusOr<std::vector<std::string>> ReadLayerTypes(const JsonObject& json, int layers) {
  std::vector<std::string> types;
  if (const nlohmann::json* listed = json.Find("layer_types"); listed != nullptr) {
    if (!listed->is_array() || static_cast<int>(listed->size()) != layers) {
      return json.KeyError("layer_types",
                           absl::StrCat("must have one entry for each of the ", layers, " layers"));
    }
    for (const nlohmann::json& type : *listed) {
      types.push_back(type.is_string() ? type.get<std::string>() : type.dump());
    }
    return types;
  }
  ASSIGN_OR_RETURN(const bool sliding, json.Get<bool>("use_sliding_window", false));
  ASSIGN_OR_RETURN(const int full, json.Get<int>("max_window_layers", kDefaultMaxWindowLayers));
  for (int layer = 0; layer < layers; ++layer) {
    types.push_back(sliding && layer >= full ? "sliding_attention" : "full_attention");
  }
  return types;
}

// The window of sliding layers. 0 if the config does not enable windows. As in `transformers`, they
// are disabled by default.
absl::StatusOr<int> ReadWindow(const JsonObject& json) {
  ASSIGN_OR_RETURN(const bool used, json.Get<bool>("use_sliding_window", false));
  if (!used || !json.Has("sliding_window")) return 0;
  return json.GetPositive<int>("sliding_window");
}

// The window of a family whose layers all have it. 0 if the config sets null.
absl::Status ReadCommonWindow(const JsonObject& json, int fallback, ModelConfig& config) {
  int window = json.json().contains("sliding_window") ? 0 : fallback;
  if (json.Has("sliding_window")) {
    ASSIGN_OR_RETURN(window, json.GetPositive<int>("sliding_window"));
  }
  config.sliding_windows.assign(config.dims.layers, window);
  return absl::OkStatus();
}

absl::Status ReadWindows(const JsonObject& json, const ModelFamily& family, ModelConfig& config) {
  if (family.keys.window_everywhere) {
    return ReadCommonWindow(json, family.defaults.sliding_window, config);
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> types, ReadLayerTypes(json, config.dims.layers));
  ASSIGN_OR_RETURN(const int window, ReadWindow(json));
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return Unsupported(json, absl::StrCat("layer type '", type, "' is not supported"));
    }
    const bool sliding = type == "sliding_attention";
    // The authors' code of DFlash 1 runs such a layer without a window; `transformers` rejects it.
    const bool lenient = config.kind == ModelKind::kDflash && !family.keys.pairs;
    if (sliding && window == 0 && !lenient) {
      return json.KeyError("sliding_window",
                           "must be set and use_sliding_window must be true, because "
                           "layer_types lists sliding_attention layers");
    }
    config.sliding_windows.push_back(sliding ? window : 0);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> ReadTokenIds(const JsonObject& json, const char* key,
                                                  int limit) {
  ASSIGN_OR_RETURN(std::vector<TokenId> ids, json.Integers(key));
  for (const int id : ids) {
    if (id < 0 || id >= limit) {
      return json.KeyError(key,
                           absl::StrCat("is ", id, ", which is outside the vocabulary of ", limit));
    }
  }
  return ids;
}

// Like ReadTokenIds. A field that is absent, but not one that is null, has the family's default.
absl::StatusOr<std::vector<TokenId>> ReadTokenIds(const JsonObject& json, const char* key,
                                                  int limit, std::optional<TokenId> fallback) {
  if (json.json().contains(key) || !fallback.has_value() || *fallback >= limit) {
    return ReadTokenIds(json, key, limit);
  }
  return std::vector<TokenId>{*fallback};
}

absl::Status ReadSpecialTokens(const JsonObject& json, const std::string& folder,
                               const ModelFamily& family, ModelConfig& config) {
  const int vocabulary = config.dims.vocabulary;
  ASSIGN_OR_RETURN(config.special.bos,
                   ReadTokenIds(json, "bos_token_id", vocabulary, family.defaults.bos));
  ASSIGN_OR_RETURN(const std::vector<TokenId> eos,
                   ReadTokenIds(json, "eos_token_id", vocabulary, family.defaults.eos));
  ASSIGN_OR_RETURN(const JsonObject generation,
                   JsonObject::ReadOptional(absl::StrCat(folder, "/generation_config.json")));
  ASSIGN_OR_RETURN(const std::vector<TokenId> generation_eos,
                   ReadTokenIds(generation, "eos_token_id", vocabulary));
  std::set<TokenId> all(eos.begin(), eos.end());
  all.insert(generation_eos.begin(), generation_eos.end());
  config.special.eos.assign(all.begin(), all.end());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& folder) {
  ASSIGN_OR_RETURN(const JsonObject file, JsonObject::Read(absl::StrCat(folder, "/config.json")));
  if (IsMedusa(file)) return ReadMedusa(file);
  ASSIGN_OR_RETURN(const ModelFamily* family, ReadFamily(file));
  ASSIGN_OR_RETURN(const JsonObject json, DecoderFields(file, *family));
  RETURN_IF_ERROR(CheckKnownFields(json, FieldsOf(*family)));
  RETURN_IF_ERROR(CheckFixedFields(json, family->fixed));
  ModelConfig config;
  config.kind = family->kind;
  config.architecture = file.Has("architectures")
                            ? file.json()["architectures"][0].get<std::string>()
                            : family->architecture;
  config.names = family->names;
  RETURN_IF_ERROR(ReadDims(json, *family, config));
  RETURN_IF_ERROR(ReadDType(json, config));
  RETURN_IF_ERROR(ReadBlocks(json, *family, config));
  config.dims.mlp = MlpOf(config);
  RETURN_IF_ERROR(ReadWindows(json, *family, config));
  RETURN_IF_ERROR(ReadRotaryLayers(json, *family, config));
  RETURN_IF_ERROR(ReadSpecialTokens(json, folder, *family, config));
  if (config.kind == ModelKind::kDflash) {
    RETURN_IF_ERROR(ReadDFlash(file, *family, config));
  }
  if (config.kind == ModelKind::kEagle || config.kind == ModelKind::kParallelEagle) {
    RETURN_IF_ERROR(ReadEagle(file, *family, config));
  }
  if (config.kind == ModelKind::kSpecBlock) {
    RETURN_IF_ERROR(ReadSpecBlock(json, config));
  }
  return config;
}

absl::StatusOr<ModelConfig> ReadTargetConfig(const std::string& folder) {
  ASSIGN_OR_RETURN(ModelConfig config, ReadModelConfig(folder));
  if (config.kind == ModelKind::kTarget) return config;
  return absl::InvalidArgumentError(
      absl::StrCat(folder, ": ", config.architecture, " is a drafter; use the target's folder"));
}

}  // namespace bastion::hub
