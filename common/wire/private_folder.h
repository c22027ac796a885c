// Checks the folders of unix sockets: other users must not be able to put a socket of their own in
// the place of a service's.
#ifndef BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_
#define BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_

#include <string>

#include "absl/status/status.h"

namespace bastion::wire {

// For the sockets of this process. Creates `folder` with mode 0700 if it does not exist.
// FAILED_PRECONDITION if it belongs to another user, or if other users may enter it.
[[nodiscard]] absl::Status MakePrivateFolder(const std::string& folder);

// For the socket of another service, which this process connects to. Creates the socket's folder
// with mode 0700 if it does not exist, so that no other user can do so first. FAILED_PRECONDITION
// if the folder belongs to a user other than this one and root, or if other users may write to it.
// OK for an `address` that is no unix socket.
[[nodiscard]] absl::Status CheckPeerFolder(const std::string& address);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_PRIVATE_FOLDER_H_
