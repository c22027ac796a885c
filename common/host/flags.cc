#include "common/host/flags.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/wire/private_folder.h"
#include "common/wire/socket_lock.h"

ABSL_FLAG(
    std::string, tls_cert, "",
    "PEM file with this process's certificate chain. TCP ports then use TLS, HTTP included. It "
    "is read again when it changes. Empty: clear text.");
ABSL_FLAG(std::string, tls_key, "", "PEM file with the private key of --tls_cert.");
ABSL_FLAG(std::string, tls_ca, "",
          "PEM file with the authorities whose certificates this process trusts, of clients and of "
          "other services. Connections to other services over TCP then use TLS. Empty: none.");
ABSL_FLAG(bool, tls_require_client_cert, false,
          "Refuse clients that have no certificate of --tls_ca (mutual TLS).");
ABSL_FLAG(std::string, token_file, "",
          "File with the bearer token that this process sends to other services. It is read again "
          "when it changes. Empty: none.");
ABSL_FLAG(std::string, access_file, "",
          "File that says who may call this service, and what for (docs/security.md). It is read "
          "again when it changes. Empty: everybody who can connect may do everything.");
ABSL_FLAG(bool, allow_plaintext, false,
          "Serve TCP addresses beyond the loopback interface, and connect to services there, "
          "without TLS. Anybody on the network can then read prompts and answers.");
ABSL_FLAG(
    bool, reflection, false,
    "Offer gRPC server reflection, for tools like grpcurl. Everybody may use it, and each such "
    "call holds a thread.");
ABSL_FLAG(std::string, health_listen, "",
          "Further gRPC address, host:port, that serves only health checks, in clear text and to "
          "everybody: for probes that have no certificate. Empty: none.");
ABSL_FLAG(int, max_connections, 4096,
          "Maximum number of gRPC connections at a time. A further one replaces an idle one, or is "
          "refused. At most three quarters of the limit on descriptors.");

namespace bastion::wire {
namespace {

std::string DefaultFolder() {
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  return runtime != nullptr && *runtime != '\0' ? absl::StrCat(runtime, "/bastion")
                                                : absl::StrCat("/tmp/bastion-", geteuid());
}

// Other users must not be able to put a socket of their own in the place of a service's.
absl::Status PrepareSocketFolder(const std::string& address) {
  const std::string path = SocketPath(address);
  if (path.empty()) return absl::OkStatus();
  return MakePrivateFolder(std::filesystem::absolute(path).parent_path());
}

}  // namespace

absl::Status CheckPeerTimeout(absl::Duration timeout) {
  constexpr absl::Duration kLeast = absl::Milliseconds(50);
  if (timeout >= kLeast) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--peer_timeout is ", absl::FormatDuration(timeout), "; it must be at least ",
                   absl::FormatDuration(kLeast)));
}

std::string DefaultSocket(const std::string& service) {
  return absl::StrCat("unix://", DefaultFolder(), "/", service, ".sock");
}

FlagGroup SecurityFlagGroup() {
  return {"Security",
          {"tls_cert FILE", "tls_key FILE", "tls_ca FILE", "tls_require_client_cert",
           "token_file FILE", "access_file FILE", "allow_plaintext", "reflection",
           "health_listen ADDRESS", "max_connections N"}};
}

absl::StatusOr<std::shared_ptr<const Security>> SecurityFromFlags() {
  return Security::Make(
      {.tls = {.certificate = absl::GetFlag(FLAGS_tls_cert),
               .key = absl::GetFlag(FLAGS_tls_key),
               .authorities = absl::GetFlag(FLAGS_tls_ca),
               .require_client_certificate = absl::GetFlag(FLAGS_tls_require_client_cert)},
       .token_file = absl::GetFlag(FLAGS_token_file),
       .access_file = absl::GetFlag(FLAGS_access_file),
       .allow_plaintext = absl::GetFlag(FLAGS_allow_plaintext)});
}

absl::StatusOr<HostOptions> HostOptionsFromFlags(const std::vector<std::string>& listen,
                                                 std::shared_ptr<const Security> security) {
  for (const std::string& address : listen) {
    RETURN_IF_ERROR(PrepareSocketFolder(address));
  }
  HostOptions options;
  options.connections.max_connections = absl::GetFlag(FLAGS_max_connections);
  if (options.connections.max_connections < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max_connections is ", options.connections.max_connections, "; it must be at least 1"));
  }
  options.addresses = listen;
  options.security = std::move(security);
  options.reflection = absl::GetFlag(FLAGS_reflection);
  options.health_address = absl::GetFlag(FLAGS_health_listen);
  return options;
}

}  // namespace bastion::wire
