#include "common/wire/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/wire/descriptor_passing.h"

namespace bastion::wire {
namespace {

std::string DefaultFolder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && *runtime != '\0' ? absl::StrCat(runtime, "/bastion")
                                                : absl::StrCat("/tmp/bastion-", geteuid());
}

}  // namespace

absl::Status MakePrivateFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return SystemError(folder);
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return SystemError(folder);
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(folder, " must be a folder that belongs to this user and has mode 0700"));
}

std::string DefaultSocket(const std::string& service) {
  return absl::StrCat("unix://", DefaultFolder(), "/", service, ".sock");
}

absl::Status PrepareSocketFolder(const std::string& address) {
  const std::string folder = DefaultFolder();
  if (!absl::StartsWith(address, absl::StrCat("unix://", folder, "/"))) return absl::OkStatus();
  return MakePrivateFolder(folder);
}

}  // namespace bastion::wire
