// Responder: writes the response to one request over HTTP. Internal to common/http.
#ifndef BASTION_COMMON_HTTP_HTTP_RESPONDER_H_
#define BASTION_COMMON_HTTP_HTTP_RESPONDER_H_

#include <atomic>
#include <boost/beast/http.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/http/http_server.h"
#include "common/http/http_transport.h"

namespace bastion {

inline constexpr char kPlainText[] = "text/plain; charset=utf-8";

// A connection. Its own thread uses the socket. The listener's thread only shuts the socket down
// when a deadline has passed, which ends the call that waits.
struct HttpConnection {
  HttpConnection(HttpTransport::Socket accepted, HttpTransport::TlsContext tls)
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

class Responder final : public HttpResponse {
 public:
  static constexpr int kUnauthorized = 401;
  using Request = boost::beast::http::request<boost::beast::http::string_body>;

  // The header of `request` has been read. `connection` must outlive this object.
  Responder(HttpConnection* connection, const Request& request, absl::Duration write_timeout);

  void AddHeader(absl::string_view name, absl::string_view value) override;
  void Send(int status, absl::string_view type, absl::string_view body) override;
  void Begin(int status, absl::string_view type) override;
  bool Write(absl::string_view part) override;
  bool connected() override;

  // The connection cannot be used again after this response.
  void SetLast() { keep_alive_ = false; }
  // The handler has failed. The client notices this, also in the middle of a stream.
  void Fail();
  // Ends the response. True if the connection can be used again.
  bool End();

 private:
  void SetHeader(int status, absl::string_view type,
                 boost::beast::http::response_header<>* header) const;
  // Records the end of a write.
  void Sent(const boost::system::error_code& error);

  HttpConnection& connection_;
  const absl::Duration write_timeout_;
  const unsigned version_;
  bool keep_alive_;
  const bool is_head_;
  std::vector<std::pair<std::string, std::string>> headers_;
  bool begun_ = false, streams_ = false, chunked_ = false, failed_ = false;
};

}  // namespace bastion

#endif  // BASTION_COMMON_HTTP_HTTP_RESPONDER_H_
