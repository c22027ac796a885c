#include "common/http/http_admission.h"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/http/http_names.h"
#include "common/http/http_responder.h"

namespace bastion {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr unsigned kFirstWithHost = 11;  // HTTP/1.1.
constexpr char kPreflightMethod[] = "access-control-request-method";
// How long a browser need not ask again before it sends such a request, in seconds.
constexpr char kPreflightSeconds[] = "600";
// Headers of responses that pages of other sites may read.
constexpr char kExposed[] = "Retry-After, Traceparent, X-Request-Id";

std::string HeaderOf(const HttpRequest& request, const char* name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? "" : found->second;
}

bool Contains(const std::vector<std::string>& list, const std::string& value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

void SendEmpty(const HttpRequest&, HttpResponse& response) { response.Send(200, kPlainText, ""); }

}  // namespace

HttpAdmission::HttpAdmission(const HttpOptions* options, std::vector<HttpRoute> routes)
    : options_(*options),
      routes_(std::move(routes)),
      preflight_{.method = "OPTIONS",
                 .path = "",
                 .handler = SendEmpty,
                 .right = std::nullopt,
                 .max_body_bytes = 0,
                 .reserved = true} {}

HttpRefusal HttpAdmission::Parse(const Header& header, HttpRequest* request,
                                 std::string* host) const {
  request->method = std::string(header.method_string());
  auto target = ParseTarget(std::string(header.target()));
  if (!target) return {400, "the request's target is not a path"};
  request->path = std::move(target->path);
  request->query = std::move(target->query);
  const auto encoding = header.find(http::field::transfer_encoding);
  if (encoding != header.end() && !beast::iequals(encoding->value(), "chunked")) {
    return {400, "the only Transfer-Encoding that this server knows is chunked"};
  }
  for (const http::field single : {http::field::host, http::field::origin}) {
    if (header.count(single) < 2) continue;
    return {400, absl::StrCat("the request has more than one header ",
                              std::string(http::to_string(single)))};
  }
  const bool has_host = header.count(http::field::host) > 0;
  *host = target->host.value_or(std::string(header[http::field::host]));
  if (!has_host && header.version() >= kFirstWithHost)
    return {400, "the request has no Host header"};
  // Browsers send a Host. Probes that speak HTTP/1.0 may not.
  if ((has_host || target->host) && !IsOwnHost(*host, options_.hosts)) {
    return {421, "the Host header does not name this server"};
  }
  for (const auto& field : header) {
    request->headers[absl::AsciiStrToLower(std::string(field.name_string()))] =
        std::string(field.value());
  }
  return {};
}

HttpRefusal HttpAdmission::CheckOrigin(const HttpRequest& request, const std::string& host,
                                       HttpResponse& response) const {
  const auto found = request.headers.find("origin");
  if (found == request.headers.end()) return {};
  const std::string& origin = found->second;
  const bool is_open = std::any_of(routes_.begin(), routes_.end(), [&](const HttpRoute& route) {
    return route.path == request.path && route.cross_origin;
  });
  if (is_open && (Contains(options_.origins, origin) || Contains(options_.origins, "*"))) {
    response.AddHeader("Access-Control-Allow-Origin", origin);
    response.AddHeader("Access-Control-Expose-Headers", kExposed);
    response.AddHeader("Vary", "Origin");
    return {};
  }
  if (IsSameOrigin(origin, host)) return {};
  return {403, "pages of other sites may not use this server"};
}

void HttpAdmission::AddPreflight(const HttpRequest& request, HttpResponse& response) const {
  response.AddHeader("Access-Control-Allow-Methods", MethodsOf(request.path));
  const std::string headers = HeaderOf(request, "access-control-request-headers");
  if (!headers.empty()) response.AddHeader("Access-Control-Allow-Headers", headers);
  if (HeaderOf(request, "access-control-request-private-network") == "true") {
    response.AddHeader("Access-Control-Allow-Private-Network", "true");
  }
  response.AddHeader("Access-Control-Max-Age", kPreflightSeconds);
}

HttpRefusal HttpAdmission::Authorize(const HttpRoute& route, const HttpTransport& transport,
                                     HttpRequest* request) const {
  if (options_.access == nullptr || !route.right.has_value()) return {};
  const CallerProof proof = {.authorization = HeaderOf(*request, "authorization"),
                             .certificate_names = transport.CertificateNames()};
  auto name = options_.access->Authorize(proof, *route.right);
  if (!name.ok()) {
    return {absl::IsUnauthenticated(name.status()) ? Responder::kUnauthorized : 403,
            std::string(name.status().message())};
  }
  request->caller = *std::move(name);
  return {};
}

std::string HttpAdmission::MethodsOf(const std::string& path) const {
  std::string methods;
  for (const HttpRoute& route : routes_) {
    if (route.path != path) continue;
    absl::StrAppend(&methods, methods.empty() ? "" : ", ", route.method,
                    route.method == "GET" ? ", HEAD" : "");
  }
  return methods;
}

const HttpRoute* HttpAdmission::Admit(const Header& header, const HttpTransport& transport,
                                      HttpRequest* request, HttpResponse& response,
                                      HttpRefusal* refusal) const {
  std::string host;
  *refusal = Parse(header, request, &host);
  if (refusal->status != 0) return nullptr;
  *refusal = CheckOrigin(*request, host, response);
  if (refusal->status != 0) return nullptr;
  const std::string methods = MethodsOf(request->path);
  if (methods.empty()) {
    *refusal = {404, absl::StrCat("there is no ", request->path)};
    return nullptr;
  }
  if (request->method == "OPTIONS" && request->headers.count("origin") > 0 &&
      request->headers.count(kPreflightMethod) > 0) {
    AddPreflight(*request, response);
    return &preflight_;
  }
  const std::string& method = request->method == "HEAD" ? "GET" : request->method;
  const auto route = std::find_if(routes_.begin(), routes_.end(), [&](const HttpRoute& one) {
    return one.path == request->path && one.method == method;
  });
  if (route == routes_.end()) {
    response.AddHeader("Allow", methods);
    *refusal = {405, absl::StrCat(request->path, " does not allow this method; use ", methods)};
    return nullptr;
  }
  *refusal = Authorize(*route, transport, request);
  if (refusal->status != 0) return nullptr;
  const std::string encoding = HeaderOf(*request, "content-encoding");
  if (!encoding.empty() && !beast::iequals(encoding, "identity")) {
    response.AddHeader("Accept-Encoding", "identity");
    *refusal = {415, "this server does not decode bodies; send them without Content-Encoding"};
    return nullptr;
  }
  return &*route;
}

}  // namespace bastion
