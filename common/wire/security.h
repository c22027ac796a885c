// Security: how the gRPC connections of a process are encrypted, and how callers are identified.
//
// A server's TCP addresses use TLS if the process has a certificate. Unix sockets never do: the
// mode of their folder protects them. A client uses TLS with a TCP address if the process has
// authorities. Certificates, authorities, the token and the access list are read again when the
// files change. Thread-safe.
#ifndef BASTION_COMMON_WIRE_SECURITY_H_
#define BASTION_COMMON_WIRE_SECURITY_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_provider.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/access/access_list.h"
#include "common/access/tls.h"

namespace bastion::wire {

struct SecurityOptions {
  TlsFiles tls = {};
  std::string token_file = {};   // The bearer token for calls to peers. Empty: none.
  std::string access_file = {};  // See access_list.h. Empty: all callers have all rights.
  // Serve TCP addresses beyond the loopback interface without TLS.
  bool allow_plaintext = false;
};

class Security {
 public:
  // INVALID_ARGUMENT, with the name of the file, if one cannot be used.
  [[nodiscard]] static absl::StatusOr<std::shared_ptr<const Security>> Make(
      const SecurityOptions& options);
  // Without encryption and access control.
  [[nodiscard]] static const std::shared_ptr<const Security>& None();

  // FAILED_PRECONDITION if other hosts could read the traffic of this server's address.
  [[nodiscard]] absl::Status CheckAddress(const std::string& address) const;
  // Credentials for a server's address. Errors: CheckAddress.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> ForAddress(
      const std::string& address) const;

  // FAILED_PRECONDITION if other hosts could read what this process sends to `address`, and answer
  // in its place.
  [[nodiscard]] absl::Status CheckPeer(const std::string& address) const;
  // A channel to `address`. Each of its calls carries the token.
  [[nodiscard]] std::shared_ptr<grpc::Channel> Connect(
      const std::string& address, const grpc::ChannelArguments& arguments) const;

  // The name of a call's caller; empty if there is no access list. Errors: AccessList::Authorize.
  [[nodiscard]] absl::StatusOr<std::string> Authorize(const grpc::ServerContext& context,
                                                      Right right) const;

  [[nodiscard]] const TlsFiles& tls() const { return options_.tls; }
  // Null: all callers have all rights.
  [[nodiscard]] AccessList* access() const { return access_.get(); }

 private:
  class Token;
  explicit Security(const SecurityOptions& options);

  // FAILED_PRECONDITION, which names the flags that switch on TLS, unless traffic with `address`
  // may be in clear text.
  [[nodiscard]] absl::Status CheckPlaintext(const std::string& address,
                                            absl::string_view tls_flags) const;

  const SecurityOptions options_;
  std::unique_ptr<AccessList> access_;
  std::shared_ptr<Token> token_;  // Null: calls to peers carry none.
  // Null: there are no files of TLS.
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> certificates_;
};

// True for unix sockets, and for TCP addresses that only this host can reach.
[[nodiscard]] bool IsLocalAddress(const std::string& address);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_SECURITY_H_
