#include "common/hub/bounded_json.h"

#include <array>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace bastion::hub {

using nlohmann::ordered_json;

absl::StatusOr<ordered_json> ParseBoundedJson(std::string_view text, absl::string_view what) {
  bool is_deep = false, is_wide = false;
  std::array<int, kMaxJsonDepth + 2> names = {};  // The names of the open objects, by depth.
  const auto check_size = [&](int depth, ordered_json::parse_event_t event, auto&) {
    is_deep = is_deep || depth > kMaxJsonDepth;
    if (is_deep) return false;
    if (event == ordered_json::parse_event_t::object_start) names[depth + 1] = 0;
    if (event == ordered_json::parse_event_t::key) {
      is_wide = is_wide || ++names[depth] > kMaxJsonNames;
    }
    return !is_wide;
  };
  ordered_json parsed = ordered_json::parse(text, check_size, /*allow_exceptions=*/false);
  if (is_deep) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": more than ", kMaxJsonDepth, " levels of lists and objects"));
  }
  if (is_wide) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": an object with more than ", kMaxJsonNames, " names"));
  }
  return parsed;
}

}  // namespace bastion::hub
