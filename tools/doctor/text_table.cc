#include "tools/doctor/text_table.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace bastion::doctor {

std::string TextTable(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const int width = static_cast<int>(widths[i]);
      absl::StrAppendFormat(&text, "  %*s", i == 0 ? -width : width, row[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace bastion::doctor
