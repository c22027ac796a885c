// The files of TLS, for gRPC and HTTP alike. The services read them again when they change.
#ifndef BASTION_COMMON_ACCESS_TLS_H_
#define BASTION_COMMON_ACCESS_TLS_H_

#include <string>

#include "absl/status/status.h"

namespace bastion {

// Paths of PEM files.
struct TlsFiles {
  std::string certificate = {};  // This process's certificate chain. Empty: it has none.
  std::string key = {};          // Its private key.
  std::string authorities = {};  // Whose certificates this process trusts. Empty: none.
  // Servers: refuse clients without a certificate of the authorities.
  bool require_client_certificate = false;

  [[nodiscard]] bool serves_tls() const { return !certificate.empty(); }
};

// INVALID_ARGUMENT if a file cannot be read or parsed, if the key does not belong to the
// certificate, or if a file is missing that the others need. The message names the file or the
// flag.
[[nodiscard]] absl::Status CheckTlsFiles(const TlsFiles& files);

}  // namespace bastion

#endif  // BASTION_COMMON_ACCESS_TLS_H_
