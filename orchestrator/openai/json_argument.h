// JsonArgument: a value in the body of a request, and its name for errors, e.g.
// "messages[2].content". The functions return INVALID_ARGUMENT, for clients, if the value has
// another type. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_OPENAI_JSON_ARGUMENT_H_
#define BASTION_ORCHESTRATOR_OPENAI_JSON_ARGUMENT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace bastion {

// Objects keep their order: the properties of a schema are generated in it.
class JsonArgument {
 public:
  // `value` must outlive this object.
  JsonArgument(std::string name, const nlohmann::ordered_json* value)
      : name_(std::move(name)), value_(*value) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const nlohmann::ordered_json& value() const { return value_; }
  // The error that this argument has `problem`.
  [[nodiscard]] absl::Status Error(absl::string_view problem) const;

  [[nodiscard]] absl::StatusOr<bool> Bool() const;
  [[nodiscard]] absl::StatusOr<std::string> String() const;
  [[nodiscard]] absl::StatusOr<float> Float() const;
  // An integer from `least` to `most`. As in JSON Schema, 8.0 is one.
  [[nodiscard]] absl::StatusOr<int64_t> Integer(int64_t least, int64_t most) const;
  // The error if the value is another one than `only`, the only one that the server supports.
  [[nodiscard]] absl::Status MustBe(const nlohmann::ordered_json& only) const;

  // Calls `visit` for each element of a list.
  [[nodiscard]] absl::Status ForEach(
      absl::FunctionRef<absl::Status(const JsonArgument&)> visit) const;
  // Calls `visit` for each field of an object that is not null.
  [[nodiscard]] absl::Status ForEachField(
      absl::FunctionRef<absl::Status(const std::string& field, const JsonArgument&)> visit) const;

 private:
  std::string name_;
  const nlohmann::ordered_json& value_;
};

// The object in the body of a request. INVALID_ARGUMENT, for clients, if it is none, too deep, or
// if an object in it has too many names. The error of a text that is not JSON has the reason, the
// line and the column.
[[nodiscard]] absl::StatusOr<nlohmann::ordered_json> ParseJsonObject(const std::string& body);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_JSON_ARGUMENT_H_
