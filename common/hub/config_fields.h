// Checks that the engines know every field of a config.json. A field that is not read may change
// what the model computes.
#ifndef BASTION_COMMON_HUB_CONFIG_FIELDS_H_
#define BASTION_COMMON_HUB_CONFIG_FIELDS_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/hub/json_file.h"

namespace bastion::hub {

// A field with the only value that the engines implement.
struct FixedField {
  std::string key;
  nlohmann::json value;
};

// UNIMPLEMENTED, with the name of the field, if `json` has a field that is not in `known`, nor
// among those that do not change the computation (metadata, training, generation).
[[nodiscard]] absl::Status CheckKnownFields(const JsonObject& json,
                                            const std::vector<std::string>& known);

// UNIMPLEMENTED, with the field and both values, if one of `fields` is set to another value.
[[nodiscard]] absl::Status CheckFixedFields(const JsonObject& json,
                                            const std::vector<FixedField>& fields);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_CONFIG_FIELDS_H_
