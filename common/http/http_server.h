// HttpServer: serves HTTP/1.1 for browsers and monitoring, on Boost.Beast. Every connection has its
// own thread, so a handler may block. Thread-safe.
//
// The server defends itself against clients of any kind: it limits the number of connections, the
// size of requests, and the time that a client may take to send one or to read a response. Silent
// and slow connections make room for new ones (http_connections.h). It answers only requests whose
// Host names this server, and whose Origin, if there is one, is this server or is allowed
// (http_admission.h). So a page of another site that a user has open cannot read from it (DNS
// rebinding) or act on it (cross-site requests).
// With an access list, callers prove who they are with a bearer token, with HTTP basic
// authentication (any user name, the token as password), or with a certificate. The server reads
// the body of a request only after all these checks.
#ifndef BASTION_COMMON_HTTP_HTTP_SERVER_H_
#define BASTION_COMMON_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/access/access_list.h"
#include "common/access/tls.h"

namespace bastion {

struct HttpRequest {
  std::string method;                        // "GET", "POST"
  std::string path;                          // Begins with "/". Decoded, without the query.
  std::map<std::string, std::string> query;  // Decoded. The last value of each name.
  // By names in small letters. The last value of each name.
  std::map<std::string, std::string> headers;
  std::string body;
  std::string caller = {};  // The caller's proved name. Empty if the server has no access list.
  std::string host = {};    // The client's host (HostOfSocket).
};

// The response to one request. A handler either calls Send once, or Begin once and then Write any
// number of times. If it throws, the client gets status 500, or an incomplete stream. Browsers get
// headers that keep other sites from reading the response, and pages from loading anything from
// other servers. Used by the handler's thread.
class HttpResponse {
 public:
  virtual ~HttpResponse() = default;
  // Adds a header. Call it before Send or Begin.
  virtual void AddHeader(absl::string_view name, absl::string_view value) = 0;
  // Sends a complete response. `status` is an HTTP status code, `type` a media type.
  virtual void Send(int status, absl::string_view type, absl::string_view body) = 0;
  // Begins a response whose length is not known.
  virtual void Begin(int status, absl::string_view type) = 0;
  // Sends the next part of such a response. False if the client no longer reads; further parts are
  // dropped.
  virtual bool Write(absl::string_view part) = 0;
  // False if the client has closed the connection, or the server stops. For handlers that wait
  // while they have nothing to write.
  [[nodiscard]] virtual bool connected() = 0;
};

using HttpHandler = std::function<void(const HttpRequest& request, HttpResponse& response)>;

struct HttpRoute {
  std::string method;
  std::string path;
  HttpHandler handler;
  // The right that the caller needs. Nullopt: everybody may use this route.
  std::optional<Right> right = Right::kInspect;
  size_t max_body_bytes = 64 << 10;
  // Also answered while max_connections requests are. For probes and other short answers.
  bool reserved = false;
  // Pages of HttpOptions::origins may use it.
  bool cross_origin = false;
};

// How the server itself answers with an error, e.g. if there is no such path.
struct HttpErrorFormat {
  std::string prefix = "";  // The paths that begin with it use this format.
  std::string type = "text/plain; charset=utf-8";
  // Makes the body. Null: the message is the body.
  std::function<std::string(int status, absl::string_view message)> body = nullptr;
};

// How long a client may take.
struct HttpTimeouts {
  absl::Duration header = absl::Seconds(3);  // To send the header of a request.
  absl::Duration body = absl::Seconds(10);   // To send the body of a request.
  // To begin the next request. Longer than proxies and client libraries keep idle connections,
  // which is up to 90 s. Otherwise, they may send a request on a connection that is just being
  // closed.
  absl::Duration idle = absl::Seconds(120);
  absl::Duration write = absl::Seconds(10);  // To accept a part of a response.
};

struct HttpOptions {
  // "host:port"; the host is an IP address or a name. Port 0: any free port.
  std::string listen = "";
  // Further names that a Host header may use; "*" allows all. IP addresses, "localhost" and the
  // host of `listen` are always allowed.
  std::vector<std::string> hosts = {};
  // Origins whose pages may use the routes that are open to other sites (HttpRoute::cross_origin),
  // e.g. "https://app.example.com"; "*" allows all.
  std::vector<std::string> origins = {};
  TlsFiles tls = {};             // With a certificate: HTTPS. Read again when the files change.
  AccessList* access = nullptr;  // Who may use which routes. Null: everybody. Not owned.
  // Requests at a time; further ones are refused (503), except those of reserved routes. Fewer if
  // the process has few descriptors (descriptors.h).
  int max_connections = 64;
  // Connections of one address, or of one /64 network of IPv6, at a time. 0: no limit. Loopback
  // addresses and `trusted_addresses` have no limit.
  int max_connections_per_address = 0;
  std::vector<std::string> trusted_addresses = {};  // See AddressList::Parse.
  HttpErrorFormat errors = {};                      // Other paths get errors as plain text.
  size_t max_header_bytes = 16 << 10;
  HttpTimeouts timeouts = {};
};

class HttpServer {
 public:
  // Begins to serve `routes`. A GET route also answers HEAD. INVALID_ARGUMENT for a bad address
  // or option, UNAVAILABLE if the address cannot be used.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const HttpOptions& options, std::vector<HttpRoute> routes);
  // Closes all connections and waits for the handlers. A Write that waits returns false.
  ~HttpServer();

  // The port that it listens on.
  [[nodiscard]] int port() const;

 private:
  class Listener;
  explicit HttpServer(std::unique_ptr<Listener> listener);

  std::unique_ptr<Listener> listener_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_HTTP_HTTP_SERVER_H_
