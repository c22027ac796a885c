// HttpAdmission: decides from the header of a request which route answers it. Internal to
// common/http.
//
// It answers only requests whose Host names this server, and whose Origin, if there is one, is this
// server or, for routes that pages of other sites may use, an allowed one. With an access list, the
// caller needs the right of the route. Thread-safe: immutable.
#ifndef BASTION_COMMON_HTTP_HTTP_ADMISSION_H_
#define BASTION_COMMON_HTTP_HTTP_ADMISSION_H_

#include <boost/beast/http.hpp>
#include <string>
#include <vector>

#include "common/http/http_server.h"
#include "common/http/http_transport.h"

namespace bastion {

// Why a request is not answered by a route.
struct HttpRefusal {
  int status = 0;  // 0: the client is gone.
  std::string message = {};
};

class HttpAdmission {
 public:
  using Header = boost::beast::http::request<boost::beast::http::string_body>;

  // `options` must outlive this object.
  HttpAdmission(const HttpOptions* options, std::vector<HttpRoute> routes);

  // The route of a request whose header has been read. Sets everything but the body in `request`,
  // and adds headers to `response`. Null: `refusal` says why.
  [[nodiscard]] const HttpRoute* Admit(const Header& header, const HttpTransport& transport,
                                       HttpRequest* request, HttpResponse& response,
                                       HttpRefusal* refusal) const;

 private:
  // What a header says, after the checks that do not depend on a route.
  [[nodiscard]] HttpRefusal Parse(const Header& header, HttpRequest* request,
                                  std::string* host) const;
  // Refuses pages of other sites. Allows the page of an allowed origin to read the response.
  [[nodiscard]] HttpRefusal CheckOrigin(const HttpRequest& request, const std::string& host,
                                        HttpResponse& response) const;
  // Adds what a browser asks before it sends a request to another site.
  void AddPreflight(const HttpRequest& request, HttpResponse& response) const;
  [[nodiscard]] HttpRefusal Authorize(const HttpRoute& route, const HttpTransport& transport,
                                      HttpRequest* request) const;
  // The methods of a path, e.g. "GET, HEAD". Empty: there is no such path.
  [[nodiscard]] std::string MethodsOf(const std::string& path) const;

  const HttpOptions& options_;
  const std::vector<HttpRoute> routes_;
  const HttpRoute preflight_;  // Answers all preflights.
};

}  // namespace bastion

#endif  // BASTION_COMMON_HTTP_HTTP_ADMISSION_H_
