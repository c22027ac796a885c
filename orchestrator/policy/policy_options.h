// The options of a policy's argument: "word,name=value,name=value". Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_POLICY_OPTIONS_H_
#define BASTION_ORCHESTRATOR_POLICY_POLICY_OPTIONS_H_

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace bastion {

class PolicyOptions {
 public:
  // nullopt if an option has no value, is not a number, or occurs twice. A first part without "="
  // is the word. No argument: no word and no options.
  [[nodiscard]] static std::optional<PolicyOptions> Parse(std::optional<std::string_view> argument);

  // Empty if there is none.
  [[nodiscard]] const std::string& word() const { return word_; }

  // Moves the option `name` to `*value` if it was given. Records an error if it is not in
  // [lowest, highest].
  void Take(const std::string& name, int lowest, int highest, int* value);
  void Take(const std::string& name, double lowest, double highest, double* value);
  // True if every option has been taken, without an error.
  [[nodiscard]] bool done() const { return valid_ && values_.empty(); }

 private:
  std::string word_;
  std::map<std::string, double> values_;
  bool valid_ = true;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_POLICY_OPTIONS_H_
