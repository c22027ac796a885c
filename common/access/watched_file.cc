#include "common/access/watched_file.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"

namespace bastion {

WatchedFile::Stamp WatchedFile::Look() const {
  struct stat status;
  if (::stat(path_.c_str(), &status) != 0) return {};
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = static_cast<uint64_t>(status.st_size),
          .seconds = status.st_mtim.tv_sec,
          .nanoseconds = status.st_mtim.tv_nsec};
}

absl::StatusOr<std::string> WatchedFile::Read(size_t max_bytes) {
  // Before the content: a change while it is read is seen later.
  seen_ = Look();
  std::ifstream file(path_, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path_, ": ", strerror(errno)));
  std::string content(max_bytes + 1, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<size_t>(file.gcount()));
  if (file.bad()) {  // A disk error, or a folder. It must not pass for a short file.
    seen_ = {};
    return absl::DataLossError(absl::StrCat("cannot read ", path_, " to its end"));
  }
  if (content.size() <= max_bytes) return content;
  return absl::InvalidArgumentError(
      absl::StrCat(path_, " has more than ", max_bytes, " bytes; is it the right file?"));
}

bool WatchedFile::HasChanged() {
  const absl::Duration now = Clock::Real().Now();
  if (now < next_look_) return false;
  next_look_ = now + kInterval;
  const Stamp stamp = Look();
  // A file that is missing for a moment is being replaced.
  return stamp != Stamp() && stamp != seen_;
}

}  // namespace bastion
