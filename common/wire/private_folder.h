// Folders that only this user may enter, for the sockets of the services.
#ifndef BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_
#define BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace bastion::wire {

// Creates `folder` with mode 0700 if it does not exist. FAILED_PRECONDITION if it belongs to
// another user, or if other users may enter it.
[[nodiscard]] absl::Status MakePrivateFolder(const std::string& folder);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_
