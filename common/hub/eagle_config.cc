#include "common/hub/eagle_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/hub/config_fields.h"
#include "common/hub/model_family.h"

namespace bastion::hub {
namespace {

constexpr const char* kLayers = "eagle_aux_hidden_state_layer_ids";
constexpr int kMaxTargetLayers = 10000;
constexpr const char* kSpeculatorsMask = "mask_token_id";
constexpr const char* kOtherMasks[] = {"pard_token", "ptd_token_id"};
constexpr int kDefaultPositions = 8;
constexpr int kMaxPositions = 64;

// Fields of eagle_config that this engine implements with one value.
std::vector<FixedField> FixedEagleFields() {
  return {{"use_input_layernorm_in_first_layer", true},
          {"use_last_layernorm", true},
          {"use_mtp_layernorm", false},
          {"next_layer_regular", true},
          {"parallel_draft_step", 1}};
}

absl::StatusOr<JsonObject> ReadEagleObject(const JsonObject& json) {
  ASSIGN_OR_RETURN(JsonObject object, json.Child("eagle_config"));
  std::vector<std::string> known = {kLayers, "use_aux_hidden_state"};
  for (const FixedField& field : FixedEagleFields()) known.push_back(field.key);
  RETURN_IF_ERROR(CheckKnownFields(object, known));
  RETURN_IF_ERROR(CheckFixedFields(object, FixedEagleFields()));
  ASSIGN_OR_RETURN(const bool several, object.Get<bool>("use_aux_hidden_state", true));
  if (several) return object;
  return absl::UnimplementedError(
      absl::StrCat(object.origin(),
                   ": 'use_aux_hidden_state' is false: this drafter reads the last state of the "
                   "target; the engines implement only drafters that read several layers"));
}

// The layers are in config.json or in its object eagle_config. Some programs count the outputs of
// layers as this project does, others count the inputs: the input of layer 2 is the output of layer
// 1. No drafter reads the output of layer 0, so a list that begins with 1 counts outputs. SGLang
// tells the lists apart in the same way.
absl::StatusOr<std::vector<int>> ReadLayers(const JsonObject& json, const JsonObject& object) {
  if (json.Has(kLayers) && object.Has(kLayers) && *json.Find(kLayers) != *object.Find(kLayers)) {
    return json.KeyError(kLayers, "differs from that in 'eagle_config'; remove one of them");
  }
  const JsonObject& source = json.Has(kLayers) ? json : object;
  ASSIGN_OR_RETURN(std::vector<int> layers, source.Integers(kLayers));
  const bool counts_outputs = !layers.empty() && layers.front() == 1;
  for (int& layer : layers) {
    if (layer < 1 || layer > kMaxTargetLayers) {
      return source.KeyError(
          kLayers, absl::StrCat("lists ", layer, "; it must list numbers from 1 to ",
                                kMaxTargetLayers, ", of layers whose inputs are the features"));
    }
    if (!counts_outputs) --layer;
  }
  return layers;
}

// The field that names the mask token. Null: the drafter is not P-EAGLE. In other configs than
// those of P-EAGLE, mask_token_id belongs to the tokenizer.
const char* MaskField(const JsonObject& json, const ModelFamily& family) {
  if (family.kind == ModelKind::kParallelEagle) return kSpeculatorsMask;
  for (const char* field : kOtherMasks) {
    if (json.Has(field)) return field;
  }
  return nullptr;
}

// The number of tokens to draft is a choice of the server. speculators writes the number that the
// drafter was trained for as that of its proposal methods.
absl::StatusOr<int> ReadPositions(const JsonObject& json) {
  ASSIGN_OR_RETURN(const JsonObject speculators, json.Child("speculators_config"));
  const nlohmann::json* const methods = speculators.Find("proposal_methods");
  if (methods == nullptr || !methods->is_array() || methods->empty() ||
      !methods->front().is_object()) {
    return kDefaultPositions;
  }
  const JsonObject first(methods->front(), speculators.origin());
  constexpr const char* kPositions = "speculative_tokens";
  ASSIGN_OR_RETURN(const int positions, first.GetPositive(kPositions, kDefaultPositions));
  if (positions <= kMaxPositions) return positions;
  return first.KeyError(kPositions,
                        absl::StrCat("is ", positions, "; it must be at most ", kMaxPositions));
}

absl::Status ReadParallel(const JsonObject& json, const ModelFamily& family, ModelConfig& config) {
  const char* const field = MaskField(json, family);
  if (field == nullptr) return absl::OkStatus();
  config.kind = ModelKind::kParallelEagle;
  EagleConfig& eagle = config.drafter.eagle;
  ASSIGN_OR_RETURN(eagle.mask_token, json.Get<int>(field));
  if (eagle.mask_token < 0 || eagle.mask_token >= config.dims.vocabulary) {
    return json.KeyError(
        field, absl::StrCat("is ", eagle.mask_token, ", which is outside the vocabulary of ",
                            config.dims.vocabulary));
  }
  ASSIGN_OR_RETURN(eagle.positions, ReadPositions(json));
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> DraftHeadFields() {
  return {kDraftVocabulary, "target_hidden_size", kLayers, "eagle_config"};
}

absl::Status ReadDraftHead(const JsonObject& json, ModelConfig& config) {
  const ModelDims& dims = config.dims;
  DraftHead& head = config.drafter.head;
  ASSIGN_OR_RETURN(head.vocabulary, json.GetPositive(kDraftVocabulary, dims.vocabulary));
  if (head.vocabulary > dims.vocabulary) {
    return json.KeyError(kDraftVocabulary,
                         absl::StrCat("is ", head.vocabulary,
                                      ", which is more than the vocabulary of ", dims.vocabulary));
  }
  ASSIGN_OR_RETURN(head.target_hidden, json.GetPositive("target_hidden_size", dims.hidden));
  ASSIGN_OR_RETURN(const JsonObject object, ReadEagleObject(json));
  ASSIGN_OR_RETURN(head.target_layers, ReadLayers(json, object));
  config.tie_word_embeddings = false;  // Some configs repeat the target's value.
  return absl::OkStatus();
}

std::vector<std::string> EagleFields() {
  std::vector<std::string> fields = DraftHeadFields();
  for (const char* field : {"norm_before_fc", "fc_norm", "norm_before_residual"}) {
    fields.emplace_back(field);
  }
  for (const char* field : kOtherMasks) fields.emplace_back(field);
  return fields;
}

absl::StatusOr<JsonObject> DecoderFields(const JsonObject& json, const ModelFamily& family) {
  if (family.keys.decoder.empty()) return json;
  std::vector<std::string> known = family.outer_fields;
  for (const FixedField& field : family.outer_fixed) known.push_back(field.key);
  RETURN_IF_ERROR(CheckKnownFields(json, known));
  RETURN_IF_ERROR(CheckFixedFields(json, family.outer_fixed));
  ASSIGN_OR_RETURN(JsonObject decoder, json.Child(family.keys.decoder.c_str()));
  if (decoder.Has("dtype") || decoder.Has("torch_dtype")) return decoder;
  nlohmann::json fields = decoder.json();
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (json.Has(key)) fields[key] = *json.Find(key);
  }
  return JsonObject(std::move(fields), decoder.origin());
}

absl::Status ReadEagle(const JsonObject& json, const ModelFamily& family, ModelConfig& config) {
  RETURN_IF_ERROR(ReadParallel(json, family, config));
  if (config.dims.layers != 1 && config.kind == ModelKind::kEagle) {
    return absl::UnimplementedError(
        absl::StrCat(json.origin(), ": 'num_hidden_layers' is ", config.dims.layers,
                     "; the engines implement only EAGLE-3 drafters with one layer"));
  }
  EagleConfig& eagle = config.drafter.eagle;
  RETURN_IF_ERROR(ReadDraftHead(json, config));
  ASSIGN_OR_RETURN(eagle.norm_before_residual, json.Get<bool>("norm_before_residual", false));
  // The tensors decide whether the features have norms.
  for (const char* key : {"norm_before_fc", "fc_norm"}) {
    RETURN_IF_ERROR(json.Get<bool>(key, false).status());
  }
  if (!family.keys.decoder.empty()) {
    ASSIGN_OR_RETURN(eagle.norm_output, json.Get<bool>("norm_output", false));
  }
  return absl::OkStatus();
}

std::vector<int> DefaultEagleLayers(int target_layers) {
  CHECK_GE(target_layers, 5);
  return {1, target_layers / 2 - 1, target_layers - 4};
}

}  // namespace bastion::hub
