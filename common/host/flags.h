// The security settings of every service, as flags: --tls_cert, --tls_key, --tls_ca,
// --tls_require_client_cert, --token_file, --access_file, --allow_plaintext, --reflection,
// --health_listen and --max_connections.
#ifndef BASTION_COMMON_HOST_FLAGS_H_
#define BASTION_COMMON_HOST_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/command_line.h"
#include "common/host/service_host.h"
#include "common/wire/security.h"

namespace bastion::wire {

// The flags, for the help text.
[[nodiscard]] FlagGroup SecurityFlagGroup();

// Errors: Security::Make.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const Security>> SecurityFromFlags();

// Host options with the addresses `listen` and what the flags say. Makes the folders of
// unix sockets. INVALID_ARGUMENT for a wrong value. Other errors: MakePrivateFolder
// (private_folder.h).
[[nodiscard]] absl::StatusOr<HostOptions> HostOptionsFromFlags(
    const std::vector<std::string>& listen, std::shared_ptr<const Security> security);

// INVALID_ARGUMENT if a value of --peer_timeout is too low for a peer that works.
[[nodiscard]] absl::Status CheckPeerTimeout(absl::Duration timeout);

// The default address of a service for the others on this host: a socket in the private folder
// "$XDG_RUNTIME_DIR/bastion", or "/tmp/bastion-UID" if there is no such variable.
[[nodiscard]] std::string DefaultSocket(const std::string& service);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_HOST_FLAGS_H_
