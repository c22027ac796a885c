#include "common/hub/rope_config.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

absl::Status ReadNothing(const JsonObject&, int, RopeConfig&) { return absl::OkStatus(); }

absl::Status ReadLinear(const JsonObject& parameters, int, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.linear_factor, parameters.GetPositive<double>("factor"));
  return absl::OkStatus();
}

// Changes frequencies only beyond max_position_embeddings, where the engines do not go.
absl::Status ReadDynamic(const JsonObject& parameters, int, RopeConfig&) {
  return parameters.GetPositive<double>("factor").status();
}

// 0.1 m ln(factor) + 1, as in `transformers`.
double YarnMagnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

absl::Status ReadYarn(const JsonObject& parameters, int max_positions, RopeConfig& rope) {
  YarnScaling scaling;
  ASSIGN_OR_RETURN(scaling.original_positions,
                   parameters.GetPositive("original_max_position_embeddings", max_positions));
  ASSIGN_OR_RETURN(scaling.factor, parameters.GetPositive<double>("factor"));
  ASSIGN_OR_RETURN(scaling.beta_fast, parameters.GetPositive("beta_fast", scaling.beta_fast));
  ASSIGN_OR_RETURN(scaling.beta_slow, parameters.GetPositive("beta_slow", scaling.beta_slow));
  ASSIGN_OR_RETURN(scaling.truncate, parameters.Get<bool>("truncate", true));
  ASSIGN_OR_RETURN(const double scale, parameters.Get<double>("mscale", 0));
  ASSIGN_OR_RETURN(const double all, parameters.Get<double>("mscale_all_dim", 0));
  const double magnitude = scale != 0 && all != 0 ? YarnMagnitude(scaling.factor, scale) /
                                                        YarnMagnitude(scaling.factor, all)
                                                  : YarnMagnitude(scaling.factor, 1);
  ASSIGN_OR_RETURN(scaling.attention_factor, parameters.GetPositive("attention_factor", magnitude));
  rope.yarn = scaling;
  return absl::OkStatus();
}

absl::Status ReadDivisors(const JsonObject& parameters, int, RopeConfig& rope) {
  const nlohmann::json* const factors = parameters.Find("factors");
  const bool fits = factors != nullptr && factors->is_array() &&
                    factors->size() == static_cast<size_t>(rope.dims / 2);
  for (size_t i = 0; fits && i < factors->size(); ++i) {
    const nlohmann::json& factor = (*factors)[i];
    if (!factor.is_number() || !(factor.get<double>() > 0)) break;
    rope.divisors.push_back(factor.get<double>());
  }
  if (rope.divisors.size() == static_cast<size_t>(rope.dims / 2)) return absl::OkStatus();
  return parameters.KeyError("factors",
                             absl::StrCat("must be ", rope.dims / 2, " positive numbers"));
}

absl::StatusOr<Llama3Scaling> ParseLlama3(const JsonObject& parameters, int max_positions) {
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

absl::Status ReadLlama3(const JsonObject& parameters, int max_positions, RopeConfig& rope) {
  ASSIGN_OR_RETURN(rope.llama3, ParseLlama3(parameters, max_positions));
  return absl::OkStatus();
}

// A value of rope_type: the fields that it has, and the function that reads them into a config,
// whose theta and dims are set.
struct ScalingType {
  const char* name;
  std::vector<std::string> fields;
  absl::Status (*read)(const JsonObject& parameters, int max_positions, RopeConfig& rope);
};

const std::vector<ScalingType>& ScalingTypes() {
  static const auto* const types = new std::vector<ScalingType>{
      {"default", {"factor", "original_max_position_embeddings"}, ReadNothing},
      {"linear", {"factor", "original_max_position_embeddings"}, ReadLinear},
      {"dynamic", {"factor"}, ReadDynamic},
      {"yarn",
       {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
        "mscale", "mscale_all_dim", "truncate"},
       ReadYarn},
      {"llama3",
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
       ReadLlama3},
      {"frequency_factors", {"factors"}, ReadDivisors}};
  return *types;
}

const ScalingType* FindScaling(const std::string& name) {
  for (const ScalingType& type : ScalingTypes()) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

std::string ScalingNames() {
  return absl::StrJoin(ScalingTypes(), ", ", [](std::string* out, const ScalingType& type) {
    absl::StrAppend(out, "'", type.name, "'");
  });
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
  const ScalingType* const scaling = FindScaling(type);
  if (scaling == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat(parameters.origin(), ": rotary embeddings of type '", type,
                     "' are not supported; only ", ScalingNames(), " are"));
  }
  std::vector<std::string> fields = {"rope_type", "type", "rope_theta", kFraction};
  fields.insert(fields.end(), scaling->fields.begin(), scaling->fields.end());
  RETURN_IF_ERROR(CheckKnownFields(parameters, fields));
  RopeConfig rope;
  ASSIGN_OR_RETURN(rope.theta, ReadNumber(parameters, "rope_theta", json, family.keys.rope_theta,
                                          kDefaultTheta));
  ASSIGN_OR_RETURN(rope.dims, ReadDims(json, parameters, family, config.dims.head_dim));
  RETURN_IF_ERROR(scaling->read(parameters, config.max_positions, rope));
  return rope;
}

}  // namespace bastion::hub
