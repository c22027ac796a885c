#include "common/hub/json_file.h"

#include <cerrno>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

#include "common/hub/gguf_model.h"
#include "common/hub/utf8.h"

namespace bastion::hub {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;  // Limit for nested objects and lists.

std::optional<int> AsInt(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int>::max())) {
    return std::nullopt;
  }
  const int64_t number = value.get<int64_t>();
  if (number < std::numeric_limits<int>::min()) return std::nullopt;
  return static_cast<int>(number);
}

// Returns `value` as a T. Nullopt if it has another type.
template <typename T>
std::optional<T> As(const Json& value);
template <>
std::optional<bool> As(const Json& value) {
  if (!value.is_boolean()) return std::nullopt;
  return value.get<bool>();
}
template <>
std::optional<int> As(const Json& value) {
  return AsInt(value);
}
template <>
std::optional<double> As(const Json& value) {
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}
template <>
std::optional<std::string> As(const Json& value) {
  if (!value.is_string()) return std::nullopt;
  return value.get<std::string>();
}

template <typename T>
constexpr const char* kKind = nullptr;
template <>
constexpr const char* kKind<bool> = "true or false";
template <>
constexpr const char* kKind<int> = "a 32-bit integer";
template <>
constexpr const char* kKind<double> = "a finite number";
template <>
constexpr const char* kKind<std::string> = "a string";

// Reads `path`, whose parent is a file.
absl::StatusOr<std::string> ReadPart(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return absl::ErrnoToStatus(ENOTDIR, path);
  const std::string parent = path.substr(0, slash);
  if (!IsGguf(parent)) {
    return absl::InvalidArgumentError(absl::StrCat(parent, ": neither a folder nor a GGUF file"));
  }
  return ReadMember(parent, path.substr(slash + 1));
}

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file && errno == ENOTDIR) return ReadPart(path);
  if (!file) return absl::ErrnoToStatus(errno, path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  return std::move(text).str();
}

absl::StatusOr<JsonObject> JsonObject::Read(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  RETURN_IF_ERROR(CheckUtf8(text, path));
  bool too_deep = false;
  // Stops before nesting overflows the stack of a function that follows it.
  const auto check_depth = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMaxDepth;
    return !too_deep;
  };
  try {
    Json parsed = Json::parse(text, check_depth);
    if (too_deep) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": is nested deeper than ", kMaxDepth, " levels"));
    }
    if (!parsed.is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": not a JSON object"));
    }
    return JsonObject(std::move(parsed), path);
  } catch (const Json::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", e.what()));
  }
}

absl::StatusOr<JsonObject> JsonObject::ReadOptional(const std::string& path) {
  absl::StatusOr<JsonObject> object = Read(path);
  if (absl::IsNotFound(object.status())) return JsonObject(Json::object(), path);
  return object;
}

const Json* JsonObject::Find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<JsonObject> JsonObject::Child(const char* key) const {
  const Json* found = Find(key);
  if (found != nullptr && !found->is_object()) return KeyError(key, "must be an object");
  return JsonObject(found == nullptr ? Json::object() : *found,
                    absl::StrCat(origin_, ": '", key, "'"));
}

template <typename T>
absl::StatusOr<T> JsonObject::Get(const char* key) const {
  const Json* found = Find(key);
  if (found == nullptr) return KeyError(key, "is missing");
  std::optional<T> value = As<T>(*found);
  if (!value.has_value()) return KeyError(key, absl::StrCat("must be ", kKind<T>));
  return *std::move(value);
}
template absl::StatusOr<bool> JsonObject::Get(const char*) const;
template absl::StatusOr<int> JsonObject::Get(const char*) const;
template absl::StatusOr<double> JsonObject::Get(const char*) const;
template absl::StatusOr<std::string> JsonObject::Get(const char*) const;

template <typename T>
absl::StatusOr<T> JsonObject::GetPositive(const char* key) const {
  ASSIGN_OR_RETURN(const T value, Get<T>(key));
  if (value <= 0) return KeyError(key, absl::StrCat("is ", value, "; it must be positive"));
  return value;
}
template absl::StatusOr<int> JsonObject::GetPositive(const char*) const;
template absl::StatusOr<double> JsonObject::GetPositive(const char*) const;

absl::StatusOr<std::vector<int>> JsonObject::Integers(const char* key) const {
  const Json* found = Find(key);
  if (found == nullptr) return std::vector<int>();
  const Json list = found->is_array() ? *found : Json::array({*found});
  std::vector<int> numbers;
  for (const Json& entry : list) {
    const std::optional<int> number = AsInt(entry);
    if (!number.has_value()) return KeyError(key, "must be an integer or a list of integers");
    numbers.push_back(*number);
  }
  return numbers;
}

absl::Status JsonObject::KeyError(const char* key, std::string_view problem) const {
  return absl::InvalidArgumentError(absl::StrCat(origin_, ": '", key, "' ", std::string(problem)));
}

}  // namespace bastion::hub
