#include "common/http/http_transport.h"

#include <openssl/x509v3.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr size_t kMaxPemBytes = 1 << 20;

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

}  // namespace

std::vector<std::string> HttpTransport::CertificateNames() const {
  std::vector<std::string> names;
  if (!tls_) return names;
  // native_handle() is not const, but the calls below change nothing.
  SSL* const ssl = const_cast<boost::asio::ssl::stream<Socket&>&>(*tls_).native_handle();
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(SSL_get1_peer_certificate(ssl),
                                                                &X509_free);
  if (certificate == nullptr || SSL_get_verify_result(ssl) != X509_V_OK) return names;
  auto* const alternatives = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(alternatives, i);
    if (name->type == GEN_DNS) names.push_back(TextOf(name->d.dNSName));
    if (name->type == GEN_URI) names.push_back(TextOf(name->d.uniformResourceIdentifier));
  }
  GENERAL_NAMES_free(alternatives);
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const int common = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (common >= 0) {
    names.push_back(TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, common))));
  }
  return names;
}

TlsContexts::TlsContexts(const TlsFiles& files) : files_(files) {
  for (const std::string& path : {files.certificate, files.key, files.authorities}) {
    if (!path.empty()) watched_.emplace_back(path);
  }
}

absl::StatusOr<HttpTransport::TlsContext> TlsContexts::Get() {
  if (!files_.serves_tls()) return nullptr;
  const bool changed = std::any_of(watched_.begin(), watched_.end(),
                                   [](WatchedFile& file) { return file.HasChanged(); });
  if (context_ != nullptr && !changed) return context_;
  auto loaded = Load();
  if (loaded.ok()) {
    context_ = *std::move(loaded);
  } else if (context_ == nullptr) {
    return loaded.status();
  } else {
    LOG(ERROR) << "HTTP keeps its old certificate: " << loaded.status();
  }
  return context_;
}

absl::StatusOr<HttpTransport::TlsContext> TlsContexts::Load() {
  namespace ssl = boost::asio::ssl;
  RETURN_IF_ERROR(CheckTlsFiles(files_));
  for (WatchedFile& file : watched_) {
    RETURN_IF_ERROR(file.Read(kMaxPemBytes).status());
  }
  auto context = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  // Without it, OpenSSL refuses clients with a certificate that resume a session.
  constexpr unsigned char kSessions[] = "bastion";
  SSL_CTX_set_session_id_context(context->native_handle(), kSessions, sizeof kSessions);
  boost::system::error_code error;
  error = context->use_certificate_chain_file(files_.certificate, error);
  if (!error.failed()) error = context->use_private_key_file(files_.key, ssl::context::pem, error);
  if (!error.failed() && !files_.authorities.empty()) {
    error = context->load_verify_file(files_.authorities, error);
    const int mode = files_.require_client_certificate
                         ? ssl::verify_peer | ssl::verify_fail_if_no_peer_cert
                         : ssl::verify_peer;
    if (!error.failed()) error = context->set_verify_mode(mode, error);
  }
  if (!error.failed()) return context;
  return absl::InvalidArgumentError(
      absl::StrCat("cannot use ", files_.certificate, ": ", error.message()));
}

}  // namespace bastion
