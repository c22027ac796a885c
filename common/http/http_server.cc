#include "common/http/http_server.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/descriptors.h"
#include "common/base/guarded.h"
#include "common/base/peer_host.h"
#include "common/base/status.h"
#include "common/http/http_admission.h"
#include "common/http/http_connections.h"
#include "common/http/http_names.h"
#include "common/http/http_responder.h"
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
constexpr size_t kReadBytes = 64 << 10;  // What is read beyond a header at a time.
constexpr size_t kFirstBytes = 4 << 10;  // What is read of the next request at first.
constexpr char kContinue[] = "HTTP/1.1 100 Continue\r\n\r\n";
// How long the server waits for the client to close after a response to a request that it has not
// read.
constexpr absl::Duration kLinger = absl::Seconds(1);

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
  using Parser = http::request_parser<http::string_body>;

 public:
  Listener(const HttpOptions& options, std::vector<HttpRoute> routes)
      : options_(options), admission_(&options_, std::move(routes)) {}
  ~Listener() {
    stops_ = true;
    if (thread_.joinable()) thread_.join();
    if (connections_) connections_->Stop();
  }

  // Begins to accept connections.
  absl::Status Open() {
    const auto split = SplitHostPort(options_.listen);
    if (!split || split->second < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", options_.listen, "\" is not an address; use host:port"));
    }
    RETURN_IF_ERROR(contexts_.Get().status());
    RETURN_IF_ERROR(PrepareConnections());
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

  absl::Status PrepareConnections() {
    ASSIGN_OR_RETURN(const size_t descriptors, FreeDescriptors());
    auto limits = HttpConnectionLimits::Fit(static_cast<size_t>(options_.max_connections),
                                            HttpDescriptors(descriptors));
    limits.max_per_host = static_cast<size_t>(options_.max_connections_per_address);
    std::vector<std::string> trusted = options_.trusted_addresses;
    trusted.insert(trusted.end(), {"127.0.0.0/8", "::1"});
    auto parsed = AddressList::Parse(trusted);
    if (!parsed.ok()) return Annotate(parsed.status(), "trusted proxies");
    limits.trusted = *std::move(parsed);
    connections_.emplace(std::move(limits));
    return connections_->Prepare();
  }

  // Accepts connections, ends those whose deadline has passed, and joins their threads.
  void Accept() {
    while (!stops_) {
      const bool can_add = connections_->CanAdd();
      pollfd waiting[] = {
          {acceptor_.native_handle(), static_cast<int16_t>(can_add ? POLLIN : 0), 0},
          {connections_->ended_event(), POLLIN, 0}};
      ::poll(waiting, 2, kTickMilliseconds);
      if (waiting[0].revents != 0) {
        bool accepted = false;
        RunGuarded("accepting an HTTP connection", [&] { accepted = AcceptOne(); });
        // Without descriptors, memory or threads, connections go on waiting.
        if (!accepted) ::poll(nullptr, 0, kTickMilliseconds);
      }
      connections_->CleanUp();
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
    connections_->Add(std::move(socket), *std::move(tls),
                      [this](HttpConnection& connection) { Serve(connection); });
    return true;
  }

  void Serve(HttpConnection& connection) {
    // What is neither a header's data nor a body's, e.g. extensions of chunks, has no limit of its
    // own in Beast.
    beast::flat_buffer buffer(options_.max_header_bytes + kReadBytes);
    if (!Handshake(connection)) return;
    bool is_first = true;
    while (!stops_ && (std::exchange(is_first, false) || AwaitRequest(connection, buffer)) &&
           ServeOne(connection, buffer)) {
      connections_->BeginIdle(connection);
    }
  }

  bool Handshake(HttpConnection& connection) const {
    error_code error;
    connection.SetDeadline(options_.timeouts.header);
    connection.transport.Handshake(error);
    connection.ClearDeadline();
    return !error.failed();
  }

  // Waits for the first bytes of the next request. False if the connection is over.
  bool AwaitRequest(HttpConnection& connection, beast::flat_buffer& buffer) {
    if (buffer.size() > 0) {
      connections_->BeginRequest(connection);
      return true;
    }
    error_code error;
    connection.SetDeadline(options_.timeouts.idle);
    buffer.commit(connection.transport.read_some(buffer.prepare(kFirstBytes), error));
    if (error.failed()) return false;
    connections_->BeginRequest(connection);
    return true;
  }

  // Reads a request and answers it. False if the connection is over.
  bool ServeOne(HttpConnection& connection, beast::flat_buffer& buffer) {
    Parser parser;
    parser.header_limit(static_cast<uint32_t>(options_.max_header_bytes));
    parser.body_limit(boost::none);  // The route has a limit.
    error_code error;
    connection.SetDeadline(options_.timeouts.header);
    http::read_header(connection.transport, buffer, parser, error);
    Responder response(&connection, parser.get(), options_.timeouts.write);
    HttpRequest request;
    HttpRefusal refusal = {StatusOfReadError(error), error.message()};
    const HttpRoute* route = error.failed() ? nullptr
                                            : admission_.Admit(parser.get(), connection.transport,
                                                               &request, response, &refusal);
    if (route != nullptr && !connections_->Admit(connection, route->reserved)) {
      response.AddHeader("Retry-After", "1");
      refusal = {503, "the server answers as many requests as it can; try again later"};
      route = nullptr;
    }
    if (route != nullptr) {
      connection.SetDeadline(options_.timeouts.body);
      error = ReadBody(connection, buffer, route->max_body_bytes, parser);
      refusal = {StatusOfReadError(error), error.message()};
    }
    connection.ClearDeadline();
    if (route == nullptr || error.failed()) {
      if (refusal.status == 0) return false;
      response.SetLast();
      Refuse(request.path, refusal, response);
      connections_->BeginEnd(connection);
      Linger(connection);
      return false;
    }
    if (!connections_->BeginAnswer(connection)) return false;
    request.body = std::move(parser.get().body());
    request.host = HostOfSocket(connection.transport.descriptor());
    // A handler may call libraries that throw.
    if (!RunGuarded("HTTP handler", [&] { route->handler(request, response); })) response.Fail();
    return response.End();
  }

  // Reads a body of at most `limit` bytes.
  static error_code ReadBody(HttpConnection& connection, beast::flat_buffer& buffer, size_t limit,
                             Parser& parser) {
    error_code error;
    if (parser.is_done()) return error;
    const auto length = parser.content_length();
    if (length && *length > limit) return http::error::body_limit;
    parser.body_limit(limit);
    if (beast::iequals(parser.get()[http::field::expect], "100-continue")) {
      asio::write(connection.transport, asio::buffer(kContinue, sizeof(kContinue) - 1), error);
    }
    if (!error.failed()) http::read(connection.transport, buffer, parser, error);
    return error;
  }

  // Answers a request to `path` with an error.
  void Refuse(const std::string& path, const HttpRefusal& refusal, HttpResponse& response) const {
    const HttpErrorFormat& errors = options_.errors;
    if (errors.body != nullptr && absl::StartsWith(path, errors.prefix)) {
      response.Send(refusal.status, errors.type, errors.body(refusal.status, refusal.message));
    } else {
      response.Send(refusal.status, kPlainText, absl::StrCat(refusal.message, "\n"));
    }
  }

  // Reads and drops what the client still sends, for a while. Closing a socket with unread bytes
  // would reset the connection, and the client might lose the response.
  static void Linger(HttpConnection& connection) {
    connection.SetDeadline(kLinger);
    connection.transport.EndWrites();
    std::array<char, 4096> dropped;
    error_code error;
    while (!error.failed()) connection.transport.read_some(asio::buffer(dropped), error);
  }

  HttpOptions options_;
  TlsContexts contexts_{options_.tls};
  const HttpAdmission admission_;
  asio::io_context context_;
  tcp::acceptor acceptor_{context_};
  int port_ = 0;
  std::atomic<bool> stops_{false};
  std::optional<HttpConnections> connections_;
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
