#include "bastion/connection.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

// gRPC's default is a second, which is longer than the first retries of a call wait.
constexpr int kFirstReconnectMs = 100;
constexpr int kLongestReconnectMs = 5000;

// The content of a file; empty if `path` is. Sets `status` if the file cannot be read.
std::string Read(const std::string& path, absl::Status* status) {
  if (path.empty()) return "";
  std::ifstream file(path, std::ios::binary);
  std::string content((std::istreambuf_iterator<char>(file)), {});
  if (!file || content.empty()) {
    status->Update(absl::InvalidArgumentError(absl::StrCat("cannot read ", path)));
  }
  return content;
}

// Adds metadata to a call unless `value` is empty. gRPC ends the process over bytes that metadata
// cannot have.
absl::Status AddMetadata(const char* key, const std::string& value, grpc::ClientContext& context) {
  if (value.empty()) return absl::OkStatus();
  if (!std::all_of(value.begin(), value.end(), absl::ascii_isprint)) {
    return absl::InvalidArgumentError(
        absl::StrCat("metadata ", key, " has a character that is not printable ASCII; remove it"));
  }
  context.AddMetadata(key, value);
  return absl::OkStatus();
}

}  // namespace

Connection::Connection(const std::string& endpoint, const ConnectionOptions& options)
    : endpoint_(endpoint) {
  std::string token = options.token.empty() ? Read(options.token_file, &status_) : options.token;
  absl::StripAsciiWhitespace(&token);
  if (!token.empty()) authorization_ = absl::StrCat("Bearer ", token);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options.tls_ca.empty() && !absl::StartsWith(endpoint, "unix:")) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = Read(options.tls_ca, &status_);
    tls.pem_cert_chain = Read(options.tls_cert, &status_);
    tls.pem_private_key = Read(options.tls_key, &status_);
    credentials = grpc::SslCredentials(tls);
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLongestReconnectMs);
  channel_ = grpc::CreateCustomChannel(endpoint, credentials, arguments);
}

absl::Status Connection::Prepare(const RpcOptions& options, grpc::ClientContext& context) const {
  absl::Status status = status_;
  status.Update(AddMetadata("authorization", authorization_, context));
  status.Update(AddMetadata("traceparent", options.traceparent, context));
  status.Update(AddMetadata("tracestate", options.tracestate, context));
  status.Update(AddMetadata("client-id", options.client_id, context));
  context.set_wait_for_ready(options.wait_for_ready);
  return status;
}

}  // namespace bastion
