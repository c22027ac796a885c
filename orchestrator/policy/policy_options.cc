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
    double value = 0;
    if (!has_value || !absl::SimpleAtod(option.second, &value) || !std::isfinite(value)) {
      return std::nullopt;
    }
    if (!options.values_.emplace(option.first, value).second) return std::nullopt;
  }
  return options;
}

void PolicyOptions::Take(const std::string& name, double lowest, double highest, double* value) {
  const auto found = values_.find(name);
  if (found == values_.end()) return;
  *value = found->second;
  valid_ = valid_ && *value >= lowest && *value <= highest;
  values_.erase(found);
}

void PolicyOptions::Take(const std::string& name, int lowest, int highest, int* value) {
  double number = *value;
  Take(name, static_cast<double>(lowest), static_cast<double>(highest), &number);
  valid_ = valid_ && number == std::floor(number);
  if (valid_) *value = static_cast<int>(number);
}

}  // namespace bastion
