#include "common/wire/security.h"

#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/client_interceptor.h>

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace bastion::wire {
namespace {

using grpc::experimental::FileWatcherCertificateProvider;
using grpc::experimental::InterceptionHookPoints;

constexpr char kAuthorization[] = "authorization";
constexpr unsigned kReloadSeconds = 1;
constexpr size_t kMaxTokenBytes = 4096;

// Not a host whose name begins with "unix".
bool IsUnix(const std::string& address) {
  return absl::StartsWith(address, "unix:") || absl::StartsWith(address, "unix-abstract:");
}

// Adds the token to a call. An interceptor, because gRPC's call credentials refuse connections
// without TLS, and with them unix sockets.
class AddToken final : public grpc::experimental::Interceptor {
 public:
  explicit AddToken(std::string header) : header_(std::move(header)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->insert({kAuthorization, header_});
    }
    methods->Proceed();
  }

 private:
  const std::string header_;
};

// `Token` is Security::Token, which is private.
template <typename Token>
class AddTokenFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit AddTokenFactory(std::shared_ptr<Token> token) : token_(std::move(token)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*call*/) override {
    return new AddToken(token_->Header());
  }

 private:
  const std::shared_ptr<Token> token_;
};

void Watch(const TlsFiles& files, grpc::experimental::TlsCredentialsOptions* options) {
  if (files.serves_tls()) options->watch_identity_key_cert_pairs();
  if (!files.authorities.empty()) options->watch_root_certs();
}

// The names of the client's certificate, which gRPC has verified.
std::vector<std::string> CertificateNames(const grpc::ServerContext& context) {
  std::vector<std::string> names;
  const auto identity = context.auth_context();
  if (identity == nullptr || !identity->IsPeerAuthenticated()) return names;
  for (const char* property : {"x509_subject_alternative_name", "x509_common_name"}) {
    for (const grpc::string_ref& value : identity->FindPropertyValues(property)) {
      names.emplace_back(value.data(), value.size());
    }
  }
  return names;
}

}  // namespace

// A token that is read again when its file changes. Thread-safe.
class Security::Token {
 public:
  explicit Token(const std::string& path) : file_(path) {}

  absl::Status Read() {
    MutexLock lock(&mutex_);
    return ReadLocked();
  }
  // "Bearer TOKEN"
  std::string Header() {
    MutexLock lock(&mutex_);
    if (file_.HasChanged()) {
      if (const absl::Status read = ReadLocked(); !read.ok()) {
        LOG(ERROR) << "calls keep their old token: " << read;
      }
    }
    return absl::StrCat("Bearer ", token_);
  }

 private:
  absl::Status ReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ASSIGN_OR_RETURN(std::string content, file_.Read(kMaxTokenBytes));
    absl::StripAsciiWhitespace(&content);
    for (const char byte : content) {
      if (absl::ascii_isgraph(static_cast<unsigned char>(byte))) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file_.path(), " must contain one token, without spaces inside it"));
    }
    if (content.empty()) return absl::InvalidArgumentError(absl::StrCat(file_.path(), " is empty"));
    token_ = std::move(content);
    return absl::OkStatus();
  }

  Mutex mutex_;
  WatchedFile file_ ABSL_GUARDED_BY(mutex_);
  std::string token_ ABSL_GUARDED_BY(mutex_);
};

Security::Security(const SecurityOptions& options) : options_(options) {
  const TlsFiles& files = options_.tls;
  if (!files.serves_tls() && files.authorities.empty()) return;
  certificates_ = std::make_shared<FileWatcherCertificateProvider>(
      files.key, files.certificate, files.authorities, kReloadSeconds);
}

absl::StatusOr<std::shared_ptr<const Security>> Security::Make(const SecurityOptions& options) {
  RETURN_IF_ERROR(CheckTlsFiles(options.tls));
  std::shared_ptr<Security> security(new Security(options));
  if (!options.token_file.empty()) {
    security->token_ = std::make_shared<Token>(options.token_file);
    RETURN_IF_ERROR(security->token_->Read());
  }
  if (!options.access_file.empty()) {
    ASSIGN_OR_RETURN(security->access_, AccessList::Load(options.access_file));
  }
  return security;
}

const std::shared_ptr<const Security>& Security::None() {
  static const auto& none = *new std::shared_ptr<const Security>(new Security({}));
  return none;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Security::ForAddress(
    const std::string& address) const {
  if (!IsUnix(address) && options_.tls.serves_tls()) {
    grpc::experimental::TlsServerCredentialsOptions tls(certificates_);
    Watch(options_.tls, &tls);
    if (!options_.tls.authorities.empty()) {
      tls.set_cert_request_type(options_.tls.require_client_certificate
                                    ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                    : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
    }
    return grpc::experimental::TlsServerCredentials(tls);
  }
  RETURN_IF_ERROR(CheckAddress(address));
  return grpc::InsecureServerCredentials();
}

absl::Status Security::CheckAddress(const std::string& address) const {
  return options_.tls.serves_tls() ? absl::OkStatus()
                                   : CheckPlaintext(address, "--tls_cert and --tls_key");
}

absl::Status Security::CheckPeer(const std::string& address) const {
  return options_.tls.authorities.empty() ? CheckPlaintext(address, "--tls_ca") : absl::OkStatus();
}

absl::Status Security::CheckPlaintext(const std::string& address,
                                      absl::string_view tls_flags) const {
  if (options_.allow_plaintext || IsLocalAddress(address)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("other hosts could read the traffic with ", address, "; set ", tls_flags,
                   ", use a unix: or loopback address, or set --allow_plaintext"));
}

std::shared_ptr<grpc::Channel> Security::Connect(const std::string& address,
                                                 const grpc::ChannelArguments& arguments) const {
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!IsUnix(address) && !options_.tls.authorities.empty()) {
    grpc::experimental::TlsChannelCredentialsOptions tls;
    tls.set_certificate_provider(certificates_);
    Watch(options_.tls, &tls);
    credentials = grpc::experimental::TlsCredentials(tls);
  }
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (token_ != nullptr) {
    interceptors.push_back(std::make_unique<AddTokenFactory<Token>>(token_));
  }
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, arguments,
                                                                 std::move(interceptors));
}

absl::StatusOr<std::string> Security::Authorize(const grpc::ServerContext& context,
                                                Right right) const {
  if (access_ == nullptr) return std::string();
  CallerProof proof;
  proof.certificate_names = CertificateNames(context);
  const auto& metadata = context.client_metadata();
  if (const auto found = metadata.find(kAuthorization); found != metadata.end()) {
    // A string_ref is not NUL-terminated: use its length.
    proof.authorization.assign(found->second.data(), found->second.size());
  }
  return access_->Authorize(proof, right);
}

bool IsLocalAddress(const std::string& address) {
  if (IsUnix(address)) return true;
  for (const char* host : {"localhost:", "127.", "[::1]:", "ipv4:127.",
                           "ipv6:[::1]:", "dns:localhost:", "dns:///localhost:"}) {
    // "127.evil.example:1" is a name, not an address.
    if (!absl::StartsWith(address, host)) continue;
    const absl::string_view rest = absl::string_view(address).substr(std::string(host).size());
    if (rest.find_first_not_of("0123456789.:") == absl::string_view::npos) return true;
  }
  return false;
}

}  // namespace bastion::wire
