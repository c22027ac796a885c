#include "tools/bench/flag_values.h"

#include <filesystem>
#include <utility>

#include "absl/strings/str_split.h"

namespace bastion {

absl::StatusOr<std::map<std::string, std::string>> ParseFolders(
    const std::string& flag, const std::vector<std::string>& texts) {
  std::map<std::string, std::string> folders;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (parts.first.empty() || !std::filesystem::is_directory(parts.second)) {
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": \"", text, "\" is not NAME=DIR with an existing folder"));
    }
    folders.insert(parts);
  }
  return folders;
}

}  // namespace bastion
