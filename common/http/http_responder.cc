#include "common/http/http_responder.h"

#include <poll.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "absl/strings/str_cat.h"

namespace bastion {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr unsigned kHttp11 = 11;
// Pages load scripts, styles and data only from this server, and contain none themselves.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

}  // namespace

Responder::Responder(HttpConnection* connection, const Request& request,
                     absl::Duration write_timeout)
    : connection_(*connection),
      write_timeout_(write_timeout),
      version_(request.version()),
      keep_alive_(request.keep_alive()),
      is_head_(request.method() == http::verb::head) {}

void Responder::AddHeader(absl::string_view name, absl::string_view value) {
  headers_.emplace_back(name, value);
}

void Responder::Send(int status, absl::string_view type, absl::string_view body) {
  if (streams_) return Fail();  // A part of another response has been sent.
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

void Responder::Begin(int status, absl::string_view type) {
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

bool Responder::Write(absl::string_view part) {
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

bool Responder::connected() {
  pollfd state = {connection_.transport.descriptor(), POLLRDHUP, 0};
  ::poll(&state, 1, 0);
  return !failed_ && state.revents == 0;
}

void Responder::Fail() {
  keep_alive_ = false;
  if (begun_) {
    failed_ = true;
  } else {
    Send(500, kPlainText, "the server failed to answer this request\n");
  }
}

bool Responder::End() {
  if (!begun_) Send(500, kPlainText, "the handler sent no response\n");
  if (streams_ && chunked_ && !is_head_ && !failed_) {
    error_code error;
    connection_.SetDeadline(write_timeout_);
    asio::write(connection_.transport, http::make_chunk_last(), error);
    Sent(error);
  }
  return keep_alive_ && !failed_;
}

void Responder::SetHeader(int status, absl::string_view type,
                          http::response_header<>* header) const {
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
  for (const auto& [name, value] : headers_) header->set(name, value);
}

void Responder::Sent(const error_code& error) {
  connection_.ClearDeadline();
  begun_ = true;
  failed_ = failed_ || error.failed();
}

}  // namespace bastion
