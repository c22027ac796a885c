// JSON files of a checkpoint: reading them, and taking typed values out with errors that name the
// file and the key. Internal to common/hub. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_JSON_FILE_H_
#define BASTION_COMMON_HUB_JSON_FILE_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/status.h"

namespace bastion::hub {

// The whole file. NOT_FOUND where there is none.
[[nodiscard]] absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// One JSON object with the name of where it came from. Keys that hold null count as absent, as they
// do for the Python readers of these files.
class JsonObject {
 public:
  // INVALID_ARGUMENT for what is not UTF-8, not JSON or not an object.
  [[nodiscard]] static absl::StatusOr<JsonObject> Read(const std::string& path);
  // The same, but a missing file is an empty object.
  [[nodiscard]] static absl::StatusOr<JsonObject> ReadOptional(const std::string& path);

  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] const nlohmann::json& json() const { return json_; }

  [[nodiscard]] bool Has(const char* key) const { return Find(key) != nullptr; }
  // Null where the key is absent.
  [[nodiscard]] const nlohmann::json* Find(const char* key) const;
  // An empty object where the key is absent.
  [[nodiscard]] absl::StatusOr<JsonObject> Child(const char* key) const;

  // The value, or `fallback` where the key is absent. T: bool, int, double, std::string.
  template <typename T>
  [[nodiscard]] absl::StatusOr<T> Get(const char* key, T fallback) const {
    return Has(key) ? Get<T>(key) : absl::StatusOr<T>(std::move(fallback));
  }
  // The value of a key that must be there.
  template <typename T>
  [[nodiscard]] absl::StatusOr<T> Get(const char* key) const;

  // The integers of a key that holds one or a list of them; none where it is absent.
  [[nodiscard]] absl::StatusOr<std::vector<int>> Integers(const char* key) const;

  // INVALID_ARGUMENT that names the file and the key.
  [[nodiscard]] absl::Status Wrong(const char* key, std::string_view problem) const;

 private:
  JsonObject(nlohmann::json json, std::string origin)
      : json_(std::move(json)), origin_(std::move(origin)) {}

  nlohmann::json json_;
  std::string origin_;
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_JSON_FILE_H_
