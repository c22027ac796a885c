#include "common/wire/socket_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace bastion::wire {
namespace {

// True if `file` still has the name. Its last owner may have removed it before it was locked.
bool HasName(const Descriptor& file, const std::string& name) {
  struct stat opened {
  }, named{};
  return fstat(file.get(), &opened) == 0 && stat(name.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

}  // namespace

absl::StatusOr<SocketLock> SocketLock::Lock(const std::string& path) {
  const std::string name = path + ".lock";
  for (;;) {
    Descriptor file(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file.valid()) return absl::ErrnoToStatus(errno, name);
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, name);
      return absl::AlreadyExistsError(
          absl::StrCat("another process listens on ", path, "; stop it, or use another path"));
    }
    if (HasName(file, name)) return SocketLock(name, std::move(file));
  }
}

SocketLock::~SocketLock() {
  if (!name_.empty()) unlink(name_.c_str());
}

std::string SocketPath(const std::string& address) {
  absl::string_view path = address;
  if (!absl::ConsumePrefix(&path, "unix:")) return "";
  absl::ConsumePrefix(&path, "//");
  return std::string(path);
}

}  // namespace bastion::wire
