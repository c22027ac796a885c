// The options of a policy's argument: "word,name=value,name=value". Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_POLICY_OPTIONS_H_
#define BASTION_ORCHESTRATOR_POLICY_POLICY_OPTIONS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace bastion {

class PolicyOptions {
 public:
  // nullopt if an option has no value or occurs twice. A first part without "=" is the word. No
  // argument: no word and no options.
  [[nodiscard]] static std::optional<PolicyOptions> Parse(std::optional<std::string_view> argument);

  // Empty if there is none.
  [[nodiscard]] const std::string& word() const { return word_; }

  // Moves the option `name` to `*value` if it was given. Records an error if it is not a number in
  // [lowest, highest]. `*values` are separated by "-", and all must be given.
  void Take(const std::string& name, int lowest, int highest, int* value);
  void Take(const std::string& name, double lowest, double highest, double* value);
  void Take(const std::string& name, int lowest, int highest, absl::Span<int> values);
  // True if every option has been taken, without an error.
  [[nodiscard]] bool done() const { return valid_ && values_.empty(); }

 private:
  std::string word_;
  // The text of the option `name`, which is removed. nullopt if it was not given.
  [[nodiscard]] std::optional<std::string> Remove(const std::string& name);

  std::map<std::string, std::string> values_;
  bool valid_ = true;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_POLICY_OPTIONS_H_
