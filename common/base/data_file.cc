#include "common/base/data_file.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

absl::Status CheckDataFile(const std::string& path) {
  struct stat status {};
  // Whatever else is wrong with the path is an error when the file is opened.
  if (::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path, " is ", KindOf(status.st_mode), "; name a regular file, or a new one"));
}

}  // namespace bastion
