#include "common/access/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

absl::Status FileError(const std::string& what, const std::string& path) {
  char reason[256] = "unknown error";
  if (const unsigned long code = ERR_get_error(); code != 0) {
    ERR_error_string_n(code, reason, sizeof reason);
  }
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat("cannot use ", what, " ", path, ": ", reason));
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files) {
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError("set --tls_cert and --tls_key together");
  }
  if (files.require_client_certificate && (files.authorities.empty() || !files.serves_tls())) {
    return absl::InvalidArgumentError(
        "--tls_require_client_cert needs --tls_cert, --tls_key and --tls_ca");
  }
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_method()),
                                                                  &SSL_CTX_free);
  if (files.serves_tls()) {
    if (SSL_CTX_use_certificate_chain_file(context.get(), files.certificate.c_str()) != 1) {
      return FileError("the certificate", files.certificate);
    }
    if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1) {
      return FileError("the key", files.key);
    }
  }
  if (!files.authorities.empty() &&
      SSL_CTX_load_verify_locations(context.get(), files.authorities.c_str(), nullptr) != 1) {
    return FileError("the authorities", files.authorities);
  }
  return absl::OkStatus();
}

}  // namespace bastion
