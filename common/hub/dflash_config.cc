#include "common/hub/dflash_config.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/hub/config_fields.h"
#include "common/hub/model_family.h"

namespace bastion::hub {
namespace {

constexpr const char* kBlockSize = "block_size";
constexpr const char* kMaskToken = "mask_token_id";
constexpr const char* kLayerIds = "target_layer_ids";
constexpr const char* kSpeculatorsLayerIds = "aux_hidden_state_layer_ids";
constexpr const char* kTaps = "conv_kernel_size";
constexpr const char* kGroup = "conv_group_size";
constexpr const char* kRank = "selector_rank";
constexpr const char* kTopK = "selector_top_k";
constexpr const char* kEmbeddingScale = "input_embedding_scale";
constexpr const char* kOutputMultiplier = "output_multiplier";
constexpr const char* kSoftcap = "final_logit_softcapping";

constexpr int kMaxTaps = 64;
constexpr int kMaxRank = 65535;
constexpr int kMaxTopK = 65535;
constexpr int kMaxTargetLayer = 10000;

// The number that the lists of speculators give to the output of the first layer. The documents of
// that library count the inputs of layers, from which 1 would follow. But the published lists are
// z-lab's defaults for their targets, number by number, so they are read as z-lab's. A wrong number
// would cost acceptance, and no text.
constexpr int kFirstSpeculatorsLayer = 0;

// The fields that version 2 adds.
constexpr const char* kSecondFields[] = {
    kTaps, kGroup, kRank, kTopK, kEmbeddingScale, kOutputMultiplier, kSoftcap};

bool IsFlat(const ModelFamily& family) { return !family.keys.decoder.empty(); }

absl::Status CheckLayer(const JsonObject& json, const char* key, int id,
                        const DFlashConfig& dflash) {
  if (dflash.num_target_layers > 0 && id >= dflash.num_target_layers) {
    return json.KeyError(key, absl::StrCat("lists layer ", id, ", but the target has ",
                                           dflash.num_target_layers, " layers"));
  }
  if (id >= 0 && id < kMaxTargetLayer) return absl::OkStatus();
  return json.KeyError(key, absl::StrCat("lists layer ", id, "; layers are numbered from 0 to ",
                                         kMaxTargetLayer - 1));
}

absl::Status ReadTargetLayers(const JsonObject& json, const JsonObject& fields,
                              ModelConfig& config) {
  DFlashConfig& dflash = config.drafter.dflash;
  ASSIGN_OR_RETURN(dflash.num_target_layers, json.GetPositive<int>("num_target_layers"));
  ASSIGN_OR_RETURN(dflash.target_layer_ids, fields.Integers(kLayerIds));
  if (dflash.target_layer_ids.empty()) {
    dflash.target_layer_ids = DefaultTargetLayerIds(dflash.num_target_layers, config.dims.layers);
  }
  for (const int id : dflash.target_layer_ids) {
    RETURN_IF_ERROR(CheckLayer(fields, kLayerIds, id, dflash));
  }
  return absl::OkStatus();
}

// The files of speculators do not say how many layers the target has.
absl::Status ReadSpeculatorsLayers(const JsonObject& json, DFlashConfig& dflash) {
  ASSIGN_OR_RETURN(dflash.target_layer_ids, json.Integers(kSpeculatorsLayerIds));
  if (dflash.target_layer_ids.empty()) {
    return json.KeyError(kSpeculatorsLayerIds, "must list the layers whose outputs are read");
  }
  for (int& id : dflash.target_layer_ids) {
    id -= kFirstSpeculatorsLayer;
    RETURN_IF_ERROR(CheckLayer(json, kSpeculatorsLayerIds, id, dflash));
  }
  return absl::OkStatus();
}

// The block size is in config.json or in dflash_config.
absl::StatusOr<int> ReadBlockSize(const JsonObject& json, const JsonObject& fields) {
  ASSIGN_OR_RETURN(const int size,
                   (fields.Has(kBlockSize) ? fields : json).GetPositive<int>(kBlockSize));
  if (json.Has(kBlockSize) && *json.Find(kBlockSize) != size) {
    return json.KeyError(kBlockSize, absl::StrCat("is ", json.Find(kBlockSize)->dump(),
                                                  ", but in 'dflash_config' it is ", size));
  }
  if (size >= 2) return size;
  return json.KeyError(kBlockSize, "is 1, which leaves no position to draft");
}

absl::StatusOr<int> ReadCount(const JsonObject& json, const char* key, int limit) {
  ASSIGN_OR_RETURN(const int count, json.GetPositive<int>(key));
  if (count <= limit) return count;
  return json.KeyError(key, absl::StrCat("is ", count, "; it must be at most ", limit));
}

absl::StatusOr<float> ReadFactor(const JsonObject& json, const char* key) {
  ASSIGN_OR_RETURN(const double factor, json.GetPositive<double>(key, 1));
  if (factor <= std::numeric_limits<float>::max()) return static_cast<float>(factor);
  return json.KeyError(key, "is too large");
}

absl::Status ReadScales(const JsonObject& json, DFlashConfig& dflash) {
  ASSIGN_OR_RETURN(dflash.embedding_scale, ReadFactor(json, kEmbeddingScale));
  ASSIGN_OR_RETURN(dflash.output_multiplier, ReadFactor(json, kOutputMultiplier));
  ASSIGN_OR_RETURN(const double cap, json.Get<double>(kSoftcap, 0));
  if (!(cap >= 0 && cap <= std::numeric_limits<float>::max())) {
    return json.KeyError(kSoftcap,
                         absl::StrCat("is ", cap, "; it must be positive, or 0 for no cap"));
  }
  dflash.logit_cap = static_cast<float>(cap);
  return absl::OkStatus();
}

// Reads what version 2 adds. All counts are required: with a wrong one, a checkpoint whose shapes
// happen to fit would compute something else.
absl::Status ReadSecond(const JsonObject& fields, ModelConfig& config) {
  DFlashConfig& dflash = config.drafter.dflash;
  ConvolutionConfig& convolution = config.blocks.convolution;
  ASSIGN_OR_RETURN(convolution.taps, ReadCount(fields, kTaps, kMaxTaps));
  ASSIGN_OR_RETURN(convolution.group, ReadCount(fields, kGroup, config.dims.hidden));
  if (config.dims.hidden % convolution.group != 0) {
    return fields.KeyError(kGroup,
                           absl::StrCat("is ", convolution.group, ", which does not divide the ",
                                        config.dims.hidden, " elements of a row"));
  }
  convolution.block_rows = dflash.block_size;
  ASSIGN_OR_RETURN(dflash.selector_rank, ReadCount(fields, kRank, kMaxRank));
  ASSIGN_OR_RETURN(dflash.selector_candidates, ReadCount(fields, kTopK, kMaxTopK));
  config.tie_word_embeddings = false;  // Some configs repeat the target's value.
  return ReadScales(fields, dflash);
}

// The heads of these drafters predict all tokens.
absl::Status CheckSpeculatorsHead(const JsonObject& json, const ModelConfig& config) {
  return CheckFixedFields(json, {{"draft_vocab_size", config.dims.vocabulary},
                                 {"target_hidden_size", config.dims.hidden}});
}

}  // namespace

std::vector<std::string> Dflash2SpeculatorFields() {
  std::vector<std::string> fields = {kBlockSize,           kMaskToken,
                                     kSpeculatorsLayerIds, "draft_vocab_size",
                                     "target_hidden_size", "sliding_window_non_causal"};
  fields.insert(fields.end(), std::begin(kSecondFields), std::end(kSecondFields));
  return fields;
}

absl::Status ReadDFlash(const JsonObject& json, const ModelFamily& family, ModelConfig& config) {
  DFlashConfig& dflash = config.drafter.dflash;
  JsonObject fields = json;
  if (IsFlat(family)) {
    RETURN_IF_ERROR(ReadSpeculatorsLayers(json, dflash));
    RETURN_IF_ERROR(CheckSpeculatorsHead(json, config));
    ASSIGN_OR_RETURN(const bool both_ways, json.Get<bool>("sliding_window_non_causal", true));
    dflash.causal_windows = !both_ways;
  } else {
    ASSIGN_OR_RETURN(fields, json.Child("dflash_config"));
    std::vector<std::string> known = {kBlockSize, kMaskToken, kLayerIds};
    if (family.keys.pairs) {
      known.insert(known.end(), std::begin(kSecondFields), std::end(kSecondFields));
    }
    RETURN_IF_ERROR(CheckKnownFields(fields, known));
    RETURN_IF_ERROR(ReadTargetLayers(json, fields, config));
    ASSIGN_OR_RETURN(dflash.causal_windows, json.Get<bool>("is_causal", true));
  }
  ASSIGN_OR_RETURN(dflash.block_size, ReadBlockSize(json, fields));
  ASSIGN_OR_RETURN(dflash.mask_token, fields.Get<int>(kMaskToken));
  if (dflash.mask_token < 0 || dflash.mask_token >= config.dims.vocabulary) {
    return fields.KeyError(
        kMaskToken, absl::StrCat("is ", dflash.mask_token, ", which is outside the vocabulary of ",
                                 config.dims.vocabulary));
  }
  return family.keys.pairs ? ReadSecond(fields, config) : absl::OkStatus();
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
