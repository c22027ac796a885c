#include "common/hub/rope_config.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/config_fields.h"

namespace bastion::hub {
namespace {

constexpr double kDefaultTheta = 10000;
constexpr const char* kFraction = "partial_rotary_factor";

// The object with the fields of the embedding; empty if there is none.
absl::StatusOr<JsonObject> FindParameters(const JsonObject& json) {
  ASSIGN_OR_RETURN(JsonObject scaling, json.Child("rope_scaling"));
  ASSIGN_OR_RETURN(JsonObject parameters, json.Child("rope_parameters"));
  if (scaling.json().empty()) return parameters;
  if (!parameters.json().empty() && parameters.json() != scaling.json()) {
    return json.KeyError("rope_scaling", "differs from 'rope_parameters'; remove one of them");
  }
  return scaling;
}

// The value of `key` in the parameters, or of `own` in the config, or the fallback.
absl::StatusOr<double> ReadNumber(const JsonObject& parameters, const char* key,
                                  const JsonObject& json, const std::string& own, double fallback) {
  const bool nested = parameters.Has(key) || own.empty();
  const JsonObject& source = nested ? parameters : json;
  return source.GetPositive(nested ? key : own.c_str(), fallback);
}

absl::StatusOr<Llama3Scaling> ReadLlama3(const JsonObject& parameters, int max_positions) {
  Llama3Scaling scaling;
  ASSIGN_OR_RETURN(scaling.factor, parameters.GetPositive<double>("factor"));
  ASSIGN_OR_RETURN(scaling.low_rotations, parameters.GetPositive<double>("low_freq_factor"));
  ASSIGN_OR_RETURN(scaling.high_rotations, parameters.GetPositive<double>("high_freq_factor"));
  ASSIGN_OR_RETURN(scaling.original_positions,
                   parameters.GetPositive("original_max_position_embeddings", max_positions));
  if (scaling.high_rotations <= scaling.low_rotations) {
    return parameters.KeyError(
        "high_freq_factor",
        absl::StrCat("is ", scaling.high_rotations, "; it must be greater than low_freq_factor, ",
                     scaling.low_rotations));
  }
  return scaling;
}

absl::StatusOr<int> ReadDims(const JsonObject& json, const JsonObject& parameters,
                             const ModelFamily& family, int head_dim) {
  ASSIGN_OR_RETURN(const double fraction,
                   ReadNumber(parameters, kFraction, json, family.keys.rotary_fraction,
                              family.defaults.rotary_fraction));
  if (fraction != 1 && family.keys.rotary_fraction.empty()) {
    return CheckFixedFields(parameters, {{kFraction, 1}});
  }
  const int dims = static_cast<int>(head_dim * fraction);  // Rounded down, as in `transformers`.
  if (dims < 2 || dims > head_dim || dims % 2 != 0) {
    return json.KeyError(
        parameters.Has(kFraction) ? "rope_parameters" : family.keys.rotary_fraction.c_str(),
        absl::StrCat("makes ", dims, " of the ", head_dim,
                     " elements of a head rotate; it must be an even number of "
                     "them, at least 2"));
  }
  return dims;
}

}  // namespace

absl::StatusOr<RopeConfig> ReadRope(const JsonObject& json, const ModelFamily& family,
                                    const ModelConfig& config) {
  ASSIGN_OR_RETURN(const JsonObject parameters, FindParameters(json));
  const char* key = parameters.Has("rope_type") ? "rope_type" : "type";
  ASSIGN_OR_RETURN(const std::string type, parameters.Get<std::string>(key, "default"));
  if (type != "default" && type != "llama3") {
    return absl::UnimplementedError(
        absl::StrCat(parameters.origin(), ": rotary embeddings of type '", type,
                     "' are not supported; only 'default' and 'llama3' are"));
  }
  RETURN_IF_ERROR(CheckKnownFields(
      parameters, {"rope_type", "type", "rope_theta", kFraction, "factor", "low_freq_factor",
                   "high_freq_factor", "original_max_position_embeddings"}));
  RopeConfig rope;
  ASSIGN_OR_RETURN(rope.theta, ReadNumber(parameters, "rope_theta", json, family.keys.rope_theta,
                                          kDefaultTheta));
  ASSIGN_OR_RETURN(rope.dims, ReadDims(json, parameters, family, config.dims.head_dim));
  if (type == "llama3") {
    ASSIGN_OR_RETURN(rope.llama3, ReadLlama3(parameters, config.max_positions));
  }
  return rope;
}

}  // namespace bastion::hub
