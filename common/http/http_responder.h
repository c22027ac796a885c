// Responder: writes the response to one request over HTTP. Internal to common/http.
#ifndef BASTION_COMMON_HTTP_HTTP_RESPONDER_H_
#define BASTION_COMMON_HTTP_HTTP_RESPONDER_H_

#include <boost/beast/http.hpp>
#include <boost/system/error_code.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/http/http_connections.h"
#include "common/http/http_server.h"

namespace bastion {

inline constexpr char kPlainText[] = "text/plain; charset=utf-8";

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
