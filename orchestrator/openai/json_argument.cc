#include "orchestrator/openai/json_argument.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/bounded_json.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

using json = nlohmann::ordered_json;

constexpr size_t kMaxNameBytes = 64;
// Bytes of the body and of the parser's reason that an error shows.
constexpr size_t kMaxShownBytes = 200;

// The integer in `value`; nullopt if it is none, or none of 64 bits.
std::optional<int64_t> IntegerOf(const json& value) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double number = value.get<double>();
  if (std::trunc(number) != number || number < -kLimit || number >= kLimit) return std::nullopt;
  return static_cast<int64_t>(number);
}

// Finds where and why a text is not JSON.
class ErrorFinder : public nlohmann::json_sax<json> {
 public:
  explicit ErrorFinder(absl::string_view text) : text_(text) {}

  // E.g. "line 1, column 19: …". Empty if the text is JSON.
  [[nodiscard]] const std::string& error() const { return error_; }

  bool parse_error(size_t position, const std::string& token,
                   const nlohmann::json::exception& error) override {
    // The parser has read `position` bytes; at the end, one more than there are.
    const size_t last = std::max<size_t>(position, 1) - 1;
    const absl::string_view before = text_.substr(0, last);
    const size_t line_break = before.rfind('\n');
    const size_t line_start = line_break == absl::string_view::npos ? 0 : line_break + 1;
    error_ = absl::StrCat("line ", 1 + std::count(before.begin(), before.end(), '\n'), ", column ",
                          last - line_start + 1, ": ", Reason(error.what(), token));
    return false;
  }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }

 private:
  // The reason in a message of the parser: "… - REASON; last read: …".
  static std::string Reason(absl::string_view message, const std::string& token) {
    message = message.substr(0, message.find("; last read"));
    const size_t start = message.find(" - ");
    if (start != absl::string_view::npos) message.remove_prefix(start + 3);
    if (absl::StrContains(message, "surrogate")) return "a surrogate without its pair";
    if (absl::StrContains(message, "overflow")) {
      return absl::StrCat("the number ", ShortenedToBytes(token, kMaxShownBytes),
                          " is out of range");
    }
    return ShortenedToBytes(message, kMaxShownBytes);
  }

  const absl::string_view text_;
  std::string error_;
};

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
  const std::optional<int64_t> number = IntegerOf(value_);
  if (number && *number >= least && *number <= most) return *number;
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
  absl::StatusOr<json> bounded = hub::ParseBoundedJson(body, "the body");
  if (!bounded.ok()) return ForClient(bounded.status());
  json& parsed = *bounded;
  if (parsed.is_discarded()) {
    ErrorFinder finder(body);
    (void)json::sax_parse(body, &finder);
    return ForClient(
        absl::InvalidArgumentError(absl::StrCat("the body is not JSON: ", finder.error())));
  }
  if (!parsed.is_object()) {
    return ForClient(absl::InvalidArgumentError(
        absl::StrCat("the body must be a JSON object, but it is of type ", parsed.type_name())));
  }
  return bounded;
}

}  // namespace bastion
