#include "orchestrator/policy/policy_options.h"

#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace bastion {

std::optional<PolicyOptions> PolicyOptions::Parse(std::optional<std::string_view> argument) {
  PolicyOptions options;
  if (!argument.has_value()) return options;
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(argument->data(), argument->size()), ',');
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::pair<std::string, std::string> option =
        absl::StrSplit(parts[i], absl::MaxSplits('=', 1));
    const bool has_value = parts[i].find('=') != std::string::npos;
    if (i == 0 && !has_value && !parts[i].empty()) {
      options.word_ = parts[i];
      continue;
    }
    if (!has_value || !options.values_.insert(option).second) return std::nullopt;
  }
  return options;
}

std::optional<std::string> PolicyOptions::Remove(const std::string& name) {
  const auto found = values_.extract(name);
  if (found.empty()) return std::nullopt;
  return found.mapped();
}

void PolicyOptions::Take(const std::string& name, double lowest, double highest, double* value) {
  const std::optional<std::string> text = Remove(name);
  if (!text.has_value()) return;
  valid_ = valid_ && absl::SimpleAtod(*text, value) && *value >= lowest && *value <= highest;
}

void PolicyOptions::Take(const std::string& name, int lowest, int highest, int* value) {
  double number = *value;
  Take(name, static_cast<double>(lowest), static_cast<double>(highest), &number);
  valid_ = valid_ && number == std::floor(number);
  if (valid_) *value = static_cast<int>(number);
}

void PolicyOptions::Take(const std::string& name, int lowest, int highest, absl::Span<int> values) {
  const std::optional<std::string> text = Remove(name);
  if (!text.has_value()) return;
  const std::vector<std::string> parts = absl::StrSplit(*text, '-');
  valid_ = valid_ && parts.size() == values.size();
  for (size_t i = 0; valid_ && i < parts.size(); ++i) {
    valid_ = absl::SimpleAtoi(parts[i], &values[i]) && values[i] >= lowest && values[i] <= highest;
  }
}

}  // namespace bastion
