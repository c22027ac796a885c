#include "client/cpp/connection.h"

#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace bastion {
namespace {

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

}  // namespace

Connection::Connection(const std::string& endpoint, const ConnectionOptions& options) {
  std::string token = Read(options.token_file, &status_);
  absl::StripAsciiWhitespace(&token);
  if (!token.empty()) authorization_ = absl::StrCat("Bearer ", token);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options.tls_ca.empty() && !absl::StartsWith(endpoint, "unix")) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = Read(options.tls_ca, &status_);
    tls.pem_cert_chain = Read(options.tls_cert, &status_);
    tls.pem_private_key = Read(options.tls_key, &status_);
    credentials = grpc::SslCredentials(tls);
  }
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
  channel_ = grpc::CreateCustomChannel(endpoint, credentials, arguments);
}

absl::Status Connection::Prepare(absl::Duration timeout, grpc::ClientContext& context) const {
  context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
  if (!authorization_.empty()) context.AddMetadata("authorization", authorization_);
  return status_;
}

}  // namespace bastion
