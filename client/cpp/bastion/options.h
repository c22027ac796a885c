// Options of connections and calls. Plain data: a copy belongs to one thread at a time.
#ifndef BASTION_CLIENT_CPP_BASTION_OPTIONS_H_
#define BASTION_CLIENT_CPP_BASTION_OPTIONS_H_

#include <optional>
#include <string>

#include "absl/time/time.h"

namespace bastion {

struct ConnectionOptions {
  // PEM file with the authorities that may sign the server's certificate. Empty: clear text. Unix
  // sockets never use TLS.
  std::string tls_ca = {};
  std::string tls_cert = {};    // PEM file with the client's certificate chain, for mutual TLS.
  std::string tls_key = {};     // PEM file with its private key.
  std::string token = {};       // Bearer token. Empty: the one in token_file.
  std::string token_file = {};  // File with the bearer token. Empty: none.
  int max_message_bytes = 64 << 20;  // A larger message of the server ends the call.

  // The values of the environment variables BASTION_TLS_CA, BASTION_TLS_CERT, BASTION_TLS_KEY and
  // BASTION_TOKEN_FILE.
  [[nodiscard]] static ConnectionOptions FromEnvironment();
};

// When a failed call is made again: after UNAVAILABLE, and after RESOURCE_EXHAUSTED if the server
// says how long to wait. Never after the first token of an answer, and never beyond the timeout.
// Before a retry, the client waits for as long as the server asks, plus 50 to 100 % of the
// back-off.
struct RetryPolicy {
  int max_attempts = 5;  // With the first one. 1: no retry.
  absl::Duration initial_backoff = absl::Milliseconds(100);
  double multiplier = 2;  // Growth of the back-off from one retry to the next.
  absl::Duration max_backoff = absl::Seconds(5);
};

struct RpcOptions {
  // Time for the call with all its retries; then it ends with DEADLINE_EXCEEDED. Unset: 10 minutes
  // for an answer, 20 seconds for timelines and costs, 5 seconds for other calls.
  std::optional<absl::Duration> timeout = {};
  // Wait while the server cannot be reached, until the timeout, instead of failing.
  bool wait_for_ready = false;
  RetryPolicy retry = {};
  // W3C Trace Context. The server's spans belong to this trace. Empty: none.
  std::string traceparent = {};
  std::string tracestate = {};
  // Name of the client, at most 128 bytes: clients take turns while the server is overloaded. It
  // counts only if the server asks for neither a token nor a certificate.
  std::string client_id = {};
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_OPTIONS_H_
