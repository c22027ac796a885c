// Connection: a channel to the orchestrator, with the TLS and the token of its options.
// Thread-safe.
#ifndef BASTION_CLIENT_CPP_CONNECTION_H_
#define BASTION_CLIENT_CPP_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

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

  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Sets the deadline and the token of a call, before it starts. INVALID_ARGUMENT if a file of the
  // options could not be read.
  [[nodiscard]] absl::Status Prepare(absl::Duration timeout, grpc::ClientContext& context) const;

 private:
  absl::Status status_;        // The error of reading the files.
  std::string authorization_;  // "Bearer TOKEN"
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_CONNECTION_H_
