#include <cstdlib>

#include "bastion/options.h"

namespace bastion {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ConnectionOptions ConnectionOptions::FromEnvironment() {
  ConnectionOptions options;
  options.tls_ca = Variable("BASTION_TLS_CA");
  options.tls_cert = Variable("BASTION_TLS_CERT");
  options.tls_key = Variable("BASTION_TLS_KEY");
  options.token_file = Variable("BASTION_TOKEN_FILE");
  return options;
}

}  // namespace bastion
