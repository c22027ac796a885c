#include "common/base/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace bastion {

absl::StatusOr<size_t> FreeDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::ErrnoToStatus(errno, "getrlimit");
  // The kernel hands out the lowest number: about `next` descriptors are open.
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (next < 0) return absl::ErrnoToStatus(errno, "/dev/null");
  close(next);
  const auto open_now = static_cast<rlim_t>(next);
  return limit.rlim_cur > open_now ? static_cast<size_t>(limit.rlim_cur - open_now) : 0;
}

size_t GrpcDescriptors(size_t free) { return std::max<size_t>(free / 4 * 3, 1); }

size_t HttpDescriptors(size_t free) { return std::max<size_t>(free / 8, 1); }

}  // namespace bastion
