#include "common/hub/medusa_config.h"

#include "common/base/status.h"
#include "common/hub/config_fields.h"

namespace bastion::hub {
namespace {

constexpr const char* kHeads = "medusa_num_heads";
constexpr const char* kLayers = "medusa_num_layers";

}  // namespace

bool IsMedusa(const JsonObject& json) { return json.Has(kHeads); }

absl::StatusOr<ModelConfig> ReadMedusa(const JsonObject& json) {
  RETURN_IF_ERROR(CheckKnownFields(json, {kHeads, kLayers, "base_model_name_or_path", "hidden_size",
                                          "vocab_size", "dtype", "torch_dtype", "version"}));
  RETURN_IF_ERROR(json.GetPositive<int>(kHeads).status());
  RETURN_IF_ERROR(json.GetPositive(kLayers, 1).status());
  ModelConfig config;
  config.kind = ModelKind::kMedusa;
  config.architecture = "MedusaModel";
  if (json.Has("hidden_size")) {
    ASSIGN_OR_RETURN(config.dims.hidden, json.GetPositive<int>("hidden_size"));
  }
  if (json.Has("vocab_size")) {
    ASSIGN_OR_RETURN(config.dims.vocabulary, json.GetPositive<int>("vocab_size"));
  }
  return config;
}

}  // namespace bastion::hub
