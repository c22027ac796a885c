// Formats a table for a terminal. Thread-safe: no state.
#ifndef BASTION_TOOLS_DOCTOR_TEXT_TABLE_H_
#define BASTION_TOOLS_DOCTOR_TEXT_TABLE_H_

#include <string>
#include <vector>

namespace bastion::doctor {

// The rows, each indented by two spaces, with aligned columns. The first column is aligned to the
// left and the others to the right. All cells are ASCII. Rows may differ in length.
[[nodiscard]] std::string TextTable(const std::vector<std::vector<std::string>>& rows);

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_TEXT_TABLE_H_
