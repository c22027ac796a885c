#include "common/http/http_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/guarded.h"
#include "common/base/status.h"
#include "common/http/http_names.h"
#include "common/http/http_transport.h"

namespace bastion {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = boost::asio::ip::tcp;
using boost::system::error_code;

// How often the listener looks for connections whose time is over.
constexpr int kTickMilliseconds = 50;
constexpr int kUnauthorized = 401;
constexpr char kText[] = "text/plain; charset=utf-8";
// Pages load scripts, styles and data only from this server, and contain none themselves.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

// A connection. Its own thread uses the socket. The listener's thread only shuts the socket down
// when a deadline has passed, which ends the call that waits.
struct Connection {
  Connection(tcp::socket accepted, HttpTransport::TlsContext tls)
      : transport(std::move(accepted), std::move(tls)) {}

  void SetDeadline(absl::Duration timeout) {
    deadline = absl::ToInt64Nanoseconds(Clock::Real().Now() + timeout);
  }
  void ClearDeadline() { deadline = std::numeric_limits<int64_t>::max(); }

  HttpTransport transport;
  std::atomic<int64_t> deadline{std::numeric_limits<int64_t>::max()};  // Nanoseconds, Clock::Real.
  std::atomic<bool> ended{false};
  std::thread thread;
};

// Writes the response to one request.
class Responder final : public HttpResponse {
 public:
  Responder(Connection* connection, const http::request<http::string_body>& request,
            absl::Duration write_timeout)
      : connection_(*connection),
        write_timeout_(write_timeout),
        version_(request.version()),
        keep_alive_(request.keep_alive()),
        is_head_(request.method() == http::verb::head) {}

  void Send(int status, absl::string_view type, absl::string_view body) override {
    http::response<http::string_body> response;
    SetHeader(status, type, &response.base());
    response.keep_alive(keep_alive_);
    response.content_length(body.size());
    if (!is_head_) response.body() = std::string(body);
    http::response_serializer<http::string_body> serializer(response);
    error_code error;
    connection_.SetDeadline(write_timeout_);
    if (is_head_) {
      http::write_header(connection_.transport, serializer, error);
    } else {
      http::write(connection_.transport, serializer, error);
    }
    Sent(error);
  }

  void Begin(int status, absl::string_view type) override {
    chunked_ = version_ >= kHttp11;
    keep_alive_ = keep_alive_ && chunked_;
    http::response<http::empty_body> response;
    SetHeader(status, type, &response.base());
    response.keep_alive(keep_alive_);
    response.chunked(chunked_);
    http::response_serializer<http::empty_body> serializer(response);
    error_code error;
    connection_.SetDeadline(write_timeout_);
    http::write_header(connection_.transport, serializer, error);
    Sent(error);
    streams_ = true;
  }

  bool Write(absl::string_view part) override {
    if (failed_ || is_head_) return false;
    if (part.empty()) return true;  // An empty chunk would end the response.
    const auto bytes = asio::buffer(part.data(), part.size());
    error_code error;
    connection_.SetDeadline(write_timeout_);
    if (chunked_) {
      asio::write(connection_.transport, http::make_chunk(bytes), error);
    } else {
      asio::write(connection_.transport, bytes, error);
    }
    Sent(error);
    return !failed_;
  }

  bool connected() override {
    pollfd state = {connection_.transport.descriptor(), POLLRDHUP, 0};
    ::poll(&state, 1, 0);
    return !failed_ && state.revents == 0;
  }

  // The handler has failed. The client notices this, also in the middle of a stream.
  void Fail() {
    keep_alive_ = false;
    if (begun_) {
      failed_ = true;
    } else {
      Send(500, kText, "the server failed to answer this request\n");
    }
  }

  // Ends the response. True if the connection can be used again.
  bool End() {
    if (!begun_) Send(500, kText, "the handler sent no response\n");
    if (streams_ && chunked_ && !is_head_ && !failed_) {
      error_code error;
      connection_.SetDeadline(write_timeout_);
      asio::write(connection_.transport, http::make_chunk_last(), error);
      Sent(error);
    }
    return keep_alive_ && !failed_;
  }

 private:
  static constexpr unsigned kHttp11 = 11;

  void SetHeader(int status, absl::string_view type, http::response_header<>* header) const {
    header->result(static_cast<unsigned>(status));
    header->version(version_);
    header->set(http::field::content_type, beast::string_view(type.data(), type.size()));
    header->set(http::field::cache_control, "no-store");
    header->set("X-Content-Type-Options", "nosniff");
    header->set("Content-Security-Policy", kContentPolicy);
    header->set("Cross-Origin-Resource-Policy", "same-origin");
    header->set("Referrer-Policy", "no-referrer");
    // Browsers then ask their user for a name and a password.
    if (status == kUnauthorized) header->set(http::field::www_authenticate, "Basic realm=bastion");
  }
  // Records the end of a write.
  void Sent(const error_code& error) {
    connection_.ClearDeadline();
    begun_ = true;
    failed_ = failed_ || error.failed();
  }

  Connection& connection_;
  const absl::Duration write_timeout_;
  const unsigned version_;
  bool keep_alive_;
  const bool is_head_;
  bool begun_ = false, streams_ = false, chunked_ = false, failed_ = false;
};

// The status code for a request that could not be read; 0 if the client just closed.
int StatusOfReadError(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  if (error.category() == make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return 400;
  }
  return 0;
}

}  // namespace

class HttpServer::Listener {
 public:
  Listener(const HttpOptions& options, std::vector<HttpRoute> routes)
      : options_(options), routes_(std::move(routes)) {}
  ~Listener() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
    for (Connection& connection : connections_) connection.transport.ShutDown();
    for (Connection& connection : connections_) connection.thread.join();
  }

  // Begins to accept connections.
  absl::Status Open() {
    const auto split = SplitHostPort(options_.listen);
    if (!split || split->second < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", options_.listen, "\" is not an address; use host:port"));
    }
    RETURN_IF_ERROR(contexts_.Get().status());
    options_.hosts.push_back(split->first);
    error_code error;
    tcp::resolver resolver(context_);
    const auto found =
        resolver.resolve(split->first, absl::StrCat(split->second), tcp::resolver::passive, error);
    if (!error.failed()) Bind(found.begin()->endpoint(), &error);
    if (error.failed()) {
      return absl::UnavailableError(
          absl::StrCat("cannot listen on ", options_.listen, ": ", error.message()));
    }
    port_ = acceptor_.local_endpoint().port();
    thread_ = std::thread([this] { Accept(); });
    return absl::OkStatus();
  }

  [[nodiscard]] int port() const { return port_; }

 private:
  void Bind(const tcp::endpoint& endpoint, error_code* error) {
    *error = acceptor_.open(endpoint.protocol(), *error);
    if (!error->failed()) *error = acceptor_.set_option(tcp::acceptor::reuse_address(true), *error);
    if (!error->failed()) *error = acceptor_.bind(endpoint, *error);
    if (!error->failed()) *error = acceptor_.listen(tcp::acceptor::max_listen_connections, *error);
    if (!error->failed()) *error = acceptor_.non_blocking(true, *error);
  }

  // Accepts connections, ends those whose deadline has passed, and joins their threads.
  void Accept() {
    while (!stops_) {
      const bool full = static_cast<int>(connections_.size()) >= options_.max_connections;
      pollfd waiting = {acceptor_.native_handle(), static_cast<int16_t>(full ? 0 : POLLIN), 0};
      ::poll(&waiting, 1, kTickMilliseconds);
      if (waiting.revents != 0) {
        bool accepted = false;
        RunGuarded("accepting an HTTP connection", [&] { accepted = AcceptOne(); });
        // Without descriptors, memory or threads, connections go on waiting.
        if (!accepted) ::poll(nullptr, 0, kTickMilliseconds);
      }
      const int64_t now = absl::ToInt64Nanoseconds(Clock::Real().Now());
      for (auto it = connections_.begin(); it != connections_.end();) {
        if (it->deadline < now) it->transport.ShutDown();
        if (it->ended) {
          it->thread.join();
          it = connections_.erase(it);
        } else {
          ++it;
        }
      }
    }
  }

  // False if no connection can be accepted.
  bool AcceptOne() {
    error_code error;
    tcp::socket socket = acceptor_.accept(error);
    if (error.failed()) return false;
    error = socket.non_blocking(false, error);
    error = socket.set_option(tcp::no_delay(true), error);
    absl::StatusOr<HttpTransport::TlsContext> tls = contexts_.Get();
    if (!tls.ok()) return true;  // Open() has seen a valid one.
    Connection& connection = connections_.emplace_back(std::move(socket), *std::move(tls));
    auto close = absl::MakeCleanup([this] { connections_.pop_back(); });
    connection.thread = std::thread([this, &connection] { Serve(connection); });
    std::move(close).Cancel();
    return true;
  }

  void Serve(Connection& connection) const {
    RunGuarded("an HTTP connection", [&] {
      beast::flat_buffer buffer;
      bool open = Handshake(connection);
      while (open && !stops_) open = ServeOne(connection, buffer);
    });
    connection.transport.ShutDown();
    connection.ended = true;
  }

  bool Handshake(Connection& connection) const {
    error_code error;
    connection.SetDeadline(options_.request_timeout);
    connection.transport.Handshake(error);
    connection.ClearDeadline();
    return !error.failed();
  }

  // Reads a request and answers it. False if the connection is over.
  bool ServeOne(Connection& connection, beast::flat_buffer& buffer) const {
    http::request_parser<http::string_body> parser;
    parser.header_limit(static_cast<uint32_t>(options_.max_header_bytes));
    parser.body_limit(options_.max_body_bytes);
    error_code error;
    connection.SetDeadline(options_.request_timeout);
    http::read(connection.transport, buffer, parser, error);
    connection.ClearDeadline();
    Responder response(&connection, parser.get(), options_.write_timeout);
    if (error.failed()) {
      const int status = StatusOfReadError(error);
      if (status != 0) response.Send(status, kText, absl::StrCat(error.message(), "\n"));
      return false;
    }
    // A handler may call libraries that throw.
    if (!RunGuarded("HTTP handler", [&] { Answer(connection, parser.get(), response); })) {
      response.Fail();
    }
    return response.End();
  }

  void Answer(const Connection& connection, const http::request<http::string_body>& request,
              HttpResponse& response) const {
    const std::string host = std::string(request[http::field::host]);
    if (!IsOwnHost(host, options_.hosts)) {
      response.Send(421, kText, "the Host header does not name this server\n");
      return;
    }
    const auto origin = request.find(http::field::origin);
    if (origin != request.end() && !IsSameOrigin(std::string(origin->value()), host)) {
      response.Send(403, kText, "pages of other sites may not use this server\n");
      return;
    }
    auto target = ParseTarget(std::string(request.target()));
    if (!target) {
      response.Send(400, kText, "the request's target is not a path\n");
      return;
    }
    HttpRequest parsed = {std::string(request.method_string()), std::move(target->path),
                          std::move(target->query), request.body()};
    CallerProof caller;
    if (options_.access != nullptr) {
      caller = {.authorization = std::string(request[http::field::authorization]),
                .certificate_names = connection.transport.CertificateNames()};
    }
    Dispatch(parsed, caller, response);
  }

  void Dispatch(HttpRequest& request, const CallerProof& caller, HttpResponse& response) const {
    const std::string& method = request.method == "HEAD" ? "GET" : request.method;
    bool known_path = false;
    for (const HttpRoute& route : routes_) {
      if (route.path != request.path) continue;
      known_path = true;
      if (route.method != method) continue;
      if (options_.access != nullptr) {
        auto name = options_.access->Authorize(caller, route.right);
        if (!name.ok()) return Refuse(name.status(), response);
        request.caller = *std::move(name);
      }
      return route.handler(request, response);
    }
    if (known_path) {
      response.Send(405, kText, absl::StrCat(request.path, " does not allow this method\n"));
    } else {
      response.Send(404, kText, absl::StrCat("there is no ", request.path, "\n"));
    }
  }

  static void Refuse(const absl::Status& status, HttpResponse& response) {
    const int code = absl::IsUnauthenticated(status) ? kUnauthorized : 403;
    response.Send(code, kText, absl::StrCat(std::string(status.message()), "\n"));
  }

  HttpOptions options_;
  TlsContexts contexts_{options_.tls};
  const std::vector<HttpRoute> routes_;
  asio::io_context context_;
  tcp::acceptor acceptor_{context_};
  int port_ = 0;
  std::atomic<bool> stops_{false};
  std::list<Connection> connections_;  // Used by the thread, and after it by the destructor.
  std::thread thread_;
};

HttpServer::HttpServer(std::unique_ptr<Listener> listener) : listener_(std::move(listener)) {}
HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                              std::vector<HttpRoute> routes) {
  auto listener = std::make_unique<Listener>(options, std::move(routes));
  RETURN_IF_ERROR(listener->Open());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(listener)));
}

int HttpServer::port() const { return listener_->port(); }

}  // namespace bastion
