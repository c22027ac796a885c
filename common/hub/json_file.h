// Reads JSON files of a checkpoint and extracts typed values, with errors that name the file and
// the key. Internal to common/hub. Thread-safe: no state.
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

// Returns the contents of the file. NOT_FOUND if it does not exist. If the path continues behind a
// GGUF file ("m.gguf/config.json"), returns that part of it (gguf_model.h).
[[nodiscard]] absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// A JSON object and the name of its file. A key with the value null counts as absent, as it does in
// `transformers`.
class JsonObject {
 public:
  // REQUIRES: `json` is an object.
  JsonObject(nlohmann::json json, std::string origin)
      : json_(std::move(json)), origin_(std::move(origin)) {}

  // INVALID_ARGUMENT unless the file is a JSON object in UTF-8.
  [[nodiscard]] static absl::StatusOr<JsonObject> Read(const std::string& path);
  // Like Read, but returns an empty object if the file is missing.
  [[nodiscard]] static absl::StatusOr<JsonObject> ReadOptional(const std::string& path);

  [[nodiscard]] const std::string& origin() const { return origin_; }
  [[nodiscard]] const nlohmann::json& json() const { return json_; }

  [[nodiscard]] bool Has(const char* key) const { return Find(key) != nullptr; }
  // Null if the key is absent.
  [[nodiscard]] const nlohmann::json* Find(const char* key) const;
  // Returns the object at `key`, or an empty object if the key is absent.
  [[nodiscard]] absl::StatusOr<JsonObject> Child(const char* key) const;

  // Returns the value, or `fallback` if the key is absent. T is bool, int, double or std::string.
  // INVALID_ARGUMENT for a value of another type.
  template <typename T>
  [[nodiscard]] absl::StatusOr<T> Get(const char* key, T fallback) const {
    return Has(key) ? Get<T>(key) : absl::StatusOr<T>(std::move(fallback));
  }
  // Returns the value. INVALID_ARGUMENT if the key is absent or has another type.
  template <typename T>
  [[nodiscard]] absl::StatusOr<T> Get(const char* key) const;

  // Like Get for int and double, but INVALID_ARGUMENT unless the value is positive.
  template <typename T>
  [[nodiscard]] absl::StatusOr<T> GetPositive(const char* key) const;
  template <typename T>
  [[nodiscard]] absl::StatusOr<T> GetPositive(const char* key, T fallback) const {
    return Has(key) ? GetPositive<T>(key) : absl::StatusOr<T>(fallback);
  }

  // Returns the value of a key that is an integer or a list of integers. Empty if the key is
  // absent.
  [[nodiscard]] absl::StatusOr<std::vector<int>> Integers(const char* key) const;

  // Returns an INVALID_ARGUMENT status that names the file and the key.
  [[nodiscard]] absl::Status KeyError(const char* key, std::string_view problem) const;

 private:
  nlohmann::json json_;
  std::string origin_;
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_JSON_FILE_H_
