#include "tests/support/temp_folder.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "common/base/check.h"

namespace bastion::testing {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "bastion_test_XXXXXX").string();
  CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
  path_ = pattern;
}

TempFolder::~TempFolder() { std::filesystem::remove_all(path_); }

std::string TempFolder::File(std::string_view name) const {
  return (std::filesystem::path(path_) / name).string();
}

void TempFolder::Write(std::string_view name, std::string_view content) const {
  std::ofstream(File(name), std::ios::binary) << content;
}

}  // namespace bastion::testing
