// JSON of a client, within limits that protect the code that walks through it. Thread-safe: no
// state.
#ifndef BASTION_COMMON_HUB_BOUNDED_JSON_H_
#define BASTION_COMMON_HUB_BOUNDED_JSON_H_

#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bastion::hub {

// More levels than any parameter needs. Code that walks through a value may recurse.
inline constexpr int kMaxJsonDepth = 64;
// Names of one object. Each is compared with those before it.
inline constexpr int kMaxJsonNames = 1024;

// Parses `text`. Objects keep their order. Returns a value with is_discarded() if the text is not
// JSON. INVALID_ARGUMENT if it is nested deeper than kMaxJsonDepth, or if an object has more than
// kMaxJsonNames names; `what` names the text in that error, e.g. "the body".
[[nodiscard]] absl::StatusOr<nlohmann::ordered_json> ParseBoundedJson(std::string_view text,
                                                                      absl::string_view what);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_BOUNDED_JSON_H_
