// The file descriptors of a process, and how its servers share them. Connections of one kind must
// never take the descriptors that another kind needs. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_DESCRIPTORS_H_
#define BASTION_COMMON_BASE_DESCRIPTORS_H_

#include <cstddef>

#include "absl/status/statusor.h"

namespace bastion {

// About how many descriptors the process may still open (RLIMIT_NOFILE). The system's error if it
// cannot open any.
[[nodiscard]] absl::StatusOr<size_t> FreeDescriptors();

// How many of `free` descriptors the connections of gRPC and of HTTP may take, at least 1. The
// rest, an eighth, is for files, shared memory and connections to other services.
[[nodiscard]] size_t GrpcDescriptors(size_t free);
[[nodiscard]] size_t HttpDescriptors(size_t free);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_DESCRIPTORS_H_
