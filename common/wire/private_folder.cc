#include "common/wire/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace bastion::wire {
absl::Status MakePrivateFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return absl::ErrnoToStatus(errno, folder);
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return absl::ErrnoToStatus(errno, folder);
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " must be a folder that belongs to this user and has mode 0700"));
}

}  // namespace bastion::wire
