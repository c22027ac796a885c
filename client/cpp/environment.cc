#include <cstdlib>

#include "client/cpp/connection.h"

namespace bastion {
namespace {

std::string Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

ConnectionOptions ConnectionOptions::FromEnvironment() {
  return {.tls_ca = Variable("BASTION_TLS_CA"),
          .tls_cert = Variable("BASTION_TLS_CERT"),
          .tls_key = Variable("BASTION_TLS_KEY"),
          .token_file = Variable("BASTION_TOKEN_FILE")};
}

}  // namespace bastion
