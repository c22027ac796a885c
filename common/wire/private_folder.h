// Folders that only this user may enter, for the sockets of the services.
#ifndef BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_
#define BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace bastion::wire {

// Creates `folder` with mode 0700 if it does not exist. FAILED_PRECONDITION if it belongs to
// another user, or if other users may enter it.
[[nodiscard]] absl::Status MakePrivateFolder(const std::string& folder);

// The default address of a service for the others on this host: a socket in the private folder
// "$XDG_RUNTIME_DIR/bastion", or "/tmp/bastion-UID" if there is no such variable.
[[nodiscard]] std::string DefaultSocket(const std::string& service);

// Makes the folder of DefaultSocket if `address` is in it. Errors: MakePrivateFolder.
[[nodiscard]] absl::Status PrepareSocketFolder(const std::string& address);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_
