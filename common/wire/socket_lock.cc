#include "common/wire/socket_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace bastion::wire {

absl::StatusOr<Descriptor> LockSocket(const std::string& path) {
  const std::string name = path + ".lock";
  Descriptor file(open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) return absl::ErrnoToStatus(errno, name);
  if (flock(file.get(), LOCK_EX | LOCK_NB) == 0) return file;
  if (errno != EWOULDBLOCK) return absl::ErrnoToStatus(errno, name);
  return absl::AlreadyExistsError(
      absl::StrCat("another process listens on ", path, "; stop it, or use another path"));
}

std::string SocketPath(const std::string& address) {
  absl::string_view path = address;
  if (!absl::ConsumePrefix(&path, "unix:")) return "";
  absl::ConsumePrefix(&path, "//");
  return std::string(path);
}

}  // namespace bastion::wire
