// Connection: a channel to a server, with the TLS and the token of its options. Internal to the
// library. Thread-safe.
#ifndef BASTION_CLIENT_CPP_BASTION_CONNECTION_H_
#define BASTION_CLIENT_CPP_BASTION_CONNECTION_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "bastion/options.h"

namespace bastion {

class Connection {
 public:
  // `endpoint` is "host:port" or "unix:///path". It connects when it is first used.
  Connection(const std::string& endpoint, const ConnectionOptions& options);

  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  [[nodiscard]] const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // Sets what a call sends besides its message, before it starts. INVALID_ARGUMENT if a file of the
  // connection's options could not be read, or if a value cannot be sent.
  [[nodiscard]] absl::Status Prepare(const RpcOptions& options, grpc::ClientContext& context) const;

 private:
  std::string endpoint_;
  absl::Status status_;        // The error of reading the files.
  std::string authorization_;  // "Bearer TOKEN"
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_CONNECTION_H_
