// Connection: a channel to the orchestrator, with the TLS and the token of its options.
// Thread-safe.
#ifndef BASTION_CLIENT_CPP_CONNECTION_H_
#define BASTION_CLIENT_CPP_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"

namespace bastion {

struct ConnectionOptions {
  std::string tls_ca = {};      // PEM file with the server's authorities. Empty: clear text.
  std::string tls_cert = {};    // PEM file with the client's certificate chain. Empty: none.
  std::string tls_key = {};     // PEM file with its private key.
  std::string token_file = {};  // File with the bearer token. Empty: none.
  int max_message_bytes = 64 << 20;

  // The values of the environment variables BASTION_TLS_CA, BASTION_TLS_CERT, BASTION_TLS_KEY and
  // BASTION_TOKEN_FILE.
  [[nodiscard]] static ConnectionOptions FromEnvironment();
};

class Connection {
 public:
  // `endpoint` is "host:port" or "unix:///path"; unix sockets never use TLS. It connects when it is
  // first used.
  explicit Connection(const std::string& endpoint,
                      const ConnectionOptions& options = ConnectionOptions::FromEnvironment());

  // INVALID_ARGUMENT if a file of the options could not be read. Calls would then fail.
  [[nodiscard]] const absl::Status& status() const { return status_; }
  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Adds the token to a call.
  void Authorize(grpc::ClientContext& context) const {
    if (!authorization_.empty()) context.AddMetadata("authorization", authorization_);
  }

 private:
  absl::Status status_;
  std::string authorization_;  // "Bearer TOKEN"
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_CONNECTION_H_
