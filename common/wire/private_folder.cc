#include "common/wire/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/wire/socket_lock.h"

namespace bastion::wire {
namespace {

bool IsTrusted(uid_t owner) { return owner == geteuid() || owner == 0; }

}  // namespace

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

absl::Status CheckPeerFolder(const std::string& address) {
  const std::string path = SocketPath(address);
  if (path.empty()) return absl::OkStatus();
  const std::string folder = std::filesystem::absolute(path).parent_path();
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    if (errno == EROFS) return absl::OkStatus();  // No other user can create it either.
    return absl::ErrnoToStatus(
        errno, absl::StrCat("cannot create ", folder, ", the folder of the socket ", address,
                            "; create it with mode 0700, or use another address"));
  }
  // A link to a folder is fine if another user cannot change it.
  struct stat name {
  }, info{};
  if (lstat(folder.c_str(), &name) != 0 || stat(folder.c_str(), &info) != 0) {
    return absl::ErrnoToStatus(errno, folder);
  }
  if (S_ISDIR(info.st_mode) && IsTrusted(name.st_uid) && IsTrusted(info.st_uid) &&
      (info.st_mode & 022) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "another user could pretend to be ", address, ": ", folder,
      " must be a folder that belongs to this user or to root, and that only its owner may write "
      "to; use a folder with mode 0700"));
}

}  // namespace bastion::wire
