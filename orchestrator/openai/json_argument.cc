#include "orchestrator/openai/json_argument.h"

#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "orchestrator/serve/error_details.h"

namespace bastion {
namespace {

using json = nlohmann::ordered_json;

// More levels than any parameter needs. Code that walks through a value may recurse.
constexpr int kMaxDepth = 64;
constexpr size_t kMaxNameBytes = 64;
// Names of one object. Each is compared with those before it.
constexpr int kMaxNames = 1024;

}  // namespace

absl::Status JsonArgument::Error(absl::string_view problem) const {
  return FieldError(name_, problem);
}

absl::StatusOr<bool> JsonArgument::Bool() const {
  if (!value_.is_boolean()) return Error("must be true or false");
  return value_.get<bool>();
}

absl::StatusOr<std::string> JsonArgument::String() const {
  if (!value_.is_string()) return Error("must be a string");
  return value_.get<std::string>();
}

absl::StatusOr<float> JsonArgument::Float() const {
  if (!value_.is_number()) return Error("must be a number");
  const double number = value_.get<double>();
  if (std::abs(number) > std::numeric_limits<float>::max()) return Error("is out of range");
  return static_cast<float>(number);
}

absl::StatusOr<int64_t> JsonArgument::Integer(int64_t least, int64_t most) const {
  const bool fits =
      value_.is_number_integer() && !(value_.is_number_unsigned() &&
                                      value_.get<uint64_t>() > std::numeric_limits<int64_t>::max());
  const int64_t number = fits ? value_.get<int64_t>() : 0;
  if (fits && number >= least && number <= most) return number;
  return Error(absl::StrCat("must be an integer from ", least, " to ", most));
}

absl::Status JsonArgument::MustBe(const json& only) const {
  if (value_ == only) return absl::OkStatus();
  return Error(absl::StrCat("must be ", only.dump(), "; this server supports no other value"));
}

absl::Status JsonArgument::ForEach(
    absl::FunctionRef<absl::Status(const JsonArgument&)> visit) const {
  if (!value_.is_array()) return Error("must be a list");
  for (size_t i = 0; i < value_.size(); ++i) {
    RETURN_IF_ERROR(visit(JsonArgument(absl::StrCat(name_, "[", i, "]"), &value_[i])));
  }
  return absl::OkStatus();
}

absl::Status JsonArgument::ForEachField(
    absl::FunctionRef<absl::Status(const std::string&, const JsonArgument&)> visit) const {
  if (!value_.is_object()) return Error("must be an object");
  for (const auto& [field, value] : value_.items()) {
    if (value.is_null()) continue;
    const std::string shown = ShortenedToBytes(field, kMaxNameBytes);
    RETURN_IF_ERROR(visit(
        field, JsonArgument(name_.empty() ? shown : absl::StrCat(name_, ".", shown), &value)));
  }
  return absl::OkStatus();
}

absl::StatusOr<json> ParseJsonObject(const std::string& body) {
  bool is_deep = false, is_wide = false;
  std::array<int, kMaxDepth + 2> names = {};  // The names of the open objects, by depth.
  const auto check_size = [&](int depth, json::parse_event_t event, json&) {
    is_deep = is_deep || depth > kMaxDepth;
    if (is_deep) return false;
    if (event == json::parse_event_t::object_start) names[depth + 1] = 0;
    if (event == json::parse_event_t::key) is_wide = is_wide || ++names[depth] > kMaxNames;
    return !is_wide;
  };
  json parsed = json::parse(body, check_size, /*allow_exceptions=*/false);
  if (is_wide) {
    return ForClient(absl::InvalidArgumentError(
        absl::StrCat("the body has an object with more than ", kMaxNames, " names")));
  }
  if (is_deep) {
    return ForClient(absl::InvalidArgumentError(
        absl::StrCat("the body has more than ", kMaxDepth, " levels of lists and objects")));
  }
  if (!parsed.is_object()) {
    return ForClient(absl::InvalidArgumentError("the body is not a JSON object"));
  }
  return parsed;
}

}  // namespace bastion
