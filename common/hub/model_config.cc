#include "common/hub/model_config.h"

#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/hub/json_file.h"

namespace bastion::hub {
namespace {

constexpr const char* kTarget = "Qwen3ForCausalLM";
constexpr const char* kDrafter = "DFlashDraftModel";

// Defaults of `transformers` for a Qwen3 config.
constexpr int kDefaultHeadDim = 128;
constexpr int kDefaultMaxPositions = 32768;
constexpr int kDefaultMaxWindowLayers = 28;
constexpr double kDefaultRmsNormEps = 1e-6;
constexpr double kDefaultRopeTheta = 10000.0;

absl::Status Unsupported(const JsonObject& config, std::string_view what) {
  return absl::UnimplementedError(absl::StrCat(config.origin(), ": ", std::string(what)));
}

absl::StatusOr<int> GetPositive(const JsonObject& config, const char* key) {
  ASSIGN_OR_RETURN(const int value, config.Get<int>(key));
  if (value <= 0) return config.KeyError(key, absl::StrCat("is ", value, "; it must be positive"));
  return value;
}

absl::StatusOr<int> GetPositive(const JsonObject& config, const char* key, int fallback) {
  return config.Has(key) ? GetPositive(config, key) : fallback;
}

absl::StatusOr<double> GetPositive(const JsonObject& config, const char* key, double fallback) {
  ASSIGN_OR_RETURN(const double value, config.Get<double>(key, fallback));
  if (value <= 0) return config.KeyError(key, absl::StrCat("is ", value, "; it must be positive"));
  return value;
}

absl::Status ReadArchitecture(const JsonObject& json, ModelConfig& config) {
  const nlohmann::json* names = json.Find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    return json.KeyError("architectures", "must be a list that begins with a name");
  }
  config.architecture = names->front().get<std::string>();
  if (config.architecture != kTarget && config.architecture != kDrafter) {
    return json.KeyError("architectures",
                         absl::StrCat("names '", config.architecture, "'; it must be ", kTarget,
                                      " (target) or ", kDrafter, " (drafter)"));
  }
  const bool drafter =
      config.architecture == kDrafter || json.Has("block_size") || json.Has("dflash_config");
  config.kind = drafter ? ModelKind::kDrafter : ModelKind::kTarget;
  return absl::OkStatus();
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

absl::Status ReadDims(const JsonObject& json, ModelConfig& config) {
  ModelDims& dims = config.dims;
  ASSIGN_OR_RETURN(dims.layers, GetPositive(json, "num_hidden_layers"));
  ASSIGN_OR_RETURN(dims.hidden, GetPositive(json, "hidden_size"));
  ASSIGN_OR_RETURN(dims.query_heads, GetPositive(json, "num_attention_heads"));
  ASSIGN_OR_RETURN(dims.kv_heads, GetPositive(json, "num_key_value_heads", dims.query_heads));
  ASSIGN_OR_RETURN(dims.head_dim, GetPositive(json, "head_dim", kDefaultHeadDim));
  ASSIGN_OR_RETURN(dims.intermediate, GetPositive(json, "intermediate_size"));
  ASSIGN_OR_RETURN(dims.vocabulary, GetPositive(json, "vocab_size"));
  ASSIGN_OR_RETURN(config.max_positions,
                   GetPositive(json, "max_position_embeddings", kDefaultMaxPositions));
  ASSIGN_OR_RETURN(config.rms_norm_eps, GetPositive(json, "rms_norm_eps", kDefaultRmsNormEps));
  ASSIGN_OR_RETURN(config.tie_word_embeddings, json.Get<bool>("tie_word_embeddings", false));
  return CheckHeads(json, dims);
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
  config.dims.bytes_per_element = static_cast<int>(BytesPerElement(*dtype));
  return absl::OkStatus();
}

absl::Status CheckRopeType(const JsonObject& rope) {
  const char* key = rope.Has("rope_type") ? "rope_type" : "type";
  ASSIGN_OR_RETURN(const std::string type, rope.Get<std::string>(key, "default"));
  if (type == "default") return absl::OkStatus();
  return Unsupported(rope, absl::StrCat("rotary embeddings of type '", type,
                                        "' are not supported; only 'default' is"));
}

// Up to version 4, transformers writes rope_theta and rope_scaling. Since version 5, it writes
// rope_parameters.
absl::Status ReadRope(const JsonObject& json, ModelConfig& config) {
  ASSIGN_OR_RETURN(const JsonObject scaling, json.Child("rope_scaling"));
  RETURN_IF_ERROR(CheckRopeType(scaling));
  ASSIGN_OR_RETURN(const JsonObject parameters, json.Child("rope_parameters"));
  RETURN_IF_ERROR(CheckRopeType(parameters));
  const JsonObject& source = parameters.Has("rope_theta") ? parameters : json;
  ASSIGN_OR_RETURN(config.rope_theta, GetPositive(source, "rope_theta", kDefaultRopeTheta));
  return absl::OkStatus();
}

absl::Status CheckFeatures(const JsonObject& json) {
  ASSIGN_OR_RETURN(const bool bias, json.Get<bool>("attention_bias", false));
  if (bias) return Unsupported(json, "attention_bias is true; biases are not supported");
  ASSIGN_OR_RETURN(const std::string activation, json.Get<std::string>("hidden_act", "silu"));
  if (activation == "silu") return absl::OkStatus();
  return Unsupported(
      json, absl::StrCat("hidden_act '", activation, "' is not supported; only 'silu' is"));
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
  return GetPositive(json, "sliding_window");
}

absl::Status ReadWindows(const JsonObject& json, ModelConfig& config) {
  ASSIGN_OR_RETURN(const std::vector<std::string> types, ReadLayerTypes(json, config.dims.layers));
  ASSIGN_OR_RETURN(const int window, ReadWindow(json));
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return Unsupported(json, absl::StrCat("layer type '", type, "' is not supported"));
    }
    const bool sliding = type == "sliding_attention";
    // The DFlash authors' code runs such a layer without a window; `transformers` rejects it.
    if (sliding && window == 0 && config.kind == ModelKind::kTarget) {
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
  ASSIGN_OR_RETURN(std::vector<int> ids, json.Integers(key));
  for (const int id : ids) {
    if (id < 0 || id >= limit) {
      return json.KeyError(key,
                           absl::StrCat("is ", id, ", which is outside the vocabulary of ", limit));
    }
  }
  return ids;
}

absl::Status ReadSpecialTokens(const JsonObject& json, const std::string& folder,
                               ModelConfig& config) {
  const int vocabulary = config.dims.vocabulary;
  ASSIGN_OR_RETURN(config.special.bos, ReadTokenIds(json, "bos_token_id", vocabulary));
  ASSIGN_OR_RETURN(const std::vector<TokenId> eos, ReadTokenIds(json, "eos_token_id", vocabulary));
  ASSIGN_OR_RETURN(const JsonObject generation,
                   JsonObject::ReadOptional(absl::StrCat(folder, "/generation_config.json")));
  ASSIGN_OR_RETURN(const std::vector<TokenId> generation_eos,
                   ReadTokenIds(generation, "eos_token_id", vocabulary));
  std::set<TokenId> all(eos.begin(), eos.end());
  all.insert(generation_eos.begin(), generation_eos.end());
  config.special.eos.assign(all.begin(), all.end());
  return absl::OkStatus();
}

absl::Status ReadTargetLayers(const JsonObject& json, const JsonObject& dflash_json,
                              ModelConfig& config) {
  DFlashConfig& dflash = config.dflash;
  ASSIGN_OR_RETURN(dflash.num_target_layers, GetPositive(json, "num_target_layers"));
  ASSIGN_OR_RETURN(dflash.target_layer_ids, dflash_json.Integers("target_layer_ids"));
  if (dflash.target_layer_ids.empty()) {
    dflash.target_layer_ids = DefaultTargetLayerIds(dflash.num_target_layers, config.dims.layers);
  }
  for (const int id : dflash.target_layer_ids) {
    if (id < 0 || id >= dflash.num_target_layers) {
      return dflash_json.KeyError("target_layer_ids",
                                  absl::StrCat("lists layer ", id, ", but the target has ",
                                               dflash.num_target_layers, " layers"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadDFlash(const JsonObject& json, ModelConfig& config) {
  DFlashConfig& dflash = config.dflash;
  ASSIGN_OR_RETURN(dflash.block_size, GetPositive(json, "block_size"));
  if (dflash.block_size < 2) {
    return json.KeyError("block_size", "is 1, which leaves no position to draft");
  }
  ASSIGN_OR_RETURN(const JsonObject child, json.Child("dflash_config"));
  RETURN_IF_ERROR(ReadTargetLayers(json, child, config));
  ASSIGN_OR_RETURN(dflash.causal_windows, json.Get<bool>("is_causal", true));
  ASSIGN_OR_RETURN(dflash.mask_token, child.Get<int>("mask_token_id"));
  if (dflash.mask_token < 0 || dflash.mask_token >= config.dims.vocabulary) {
    return child.KeyError("mask_token_id", absl::StrCat("is ", dflash.mask_token,
                                                        ", which is outside the vocabulary of ",
                                                        config.dims.vocabulary));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& folder) {
  ASSIGN_OR_RETURN(const JsonObject json, JsonObject::Read(absl::StrCat(folder, "/config.json")));
  ModelConfig config;
  RETURN_IF_ERROR(ReadArchitecture(json, config));
  RETURN_IF_ERROR(CheckFeatures(json));
  RETURN_IF_ERROR(ReadDims(json, config));
  RETURN_IF_ERROR(ReadDType(json, config));
  RETURN_IF_ERROR(ReadRope(json, config));
  RETURN_IF_ERROR(ReadWindows(json, config));
  RETURN_IF_ERROR(ReadSpecialTokens(json, folder, config));
  if (config.kind == ModelKind::kDrafter) {
    RETURN_IF_ERROR(ReadDFlash(json, config));
  }
  return config;
}

std::vector<int> DefaultTargetLayerIds(int target_layers, int draft_layers) {
  CHECK_GE(target_layers, 1);
  CHECK_GE(draft_layers, 1);
  if (draft_layers == 1) return {target_layers / 2};
  const double span = target_layers - 4;
  std::vector<int> ids;
  ids.reserve(draft_layers);
  for (int i = 0; i < draft_layers; ++i) {
    // Like Python's round, nearbyint rounds half to even.
    ids.push_back(static_cast<int>(std::nearbyint(1 + i * span / (draft_layers - 1))));
  }
  return ids;
}

}  // namespace bastion::hub
