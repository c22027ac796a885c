// Checks files that services write or replace. Thread-safe: no state.
#ifndef BASTION_COMMON_BASE_DATA_FILE_H_
#define BASTION_COMMON_BASE_DATA_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace bastion {

// INVALID_ARGUMENT if there is something other than a regular file at `path` (or where a symbolic
// link at `path` leads): a folder, a device, a FIFO or a socket. A wrong path must not make a
// service rename or replace these, or wait for a FIFO's other end. OK if nothing is there.
[[nodiscard]] absl::Status CheckDataFile(const std::string& path);

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_DATA_FILE_H_
