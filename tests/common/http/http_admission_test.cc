// Which requests the HTTP server answers, by their headers.
#include <string>

#include "absl/strings/str_cat.h"
#include "common/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

using ::testing::AllOf;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using ::testing::Not;

constexpr char kOtherSite[] = "Origin: https://app.example\r\n";

class HttpAdmissionTest : public ::testing::Test {
 protected:
  // Serves /open for pages of other sites, and /own.
  void Start(HttpOptions options = {}) {
    options.listen = "127.0.0.1:0";
    const auto answer = [](const HttpRequest& request, HttpResponse& response) {
      response.Send(200, "text/plain", absl::StrCat(request.path, " ", request.body));
    };
    auto server = HttpServer::Start(
        options, {{.method = "GET", .path = "/open", .handler = answer, .cross_origin = true},
                  {.method = "POST", .path = "/open", .handler = answer, .cross_origin = true},
                  {.method = "GET", .path = "/own", .handler = answer},
                  {.method = "POST", .path = "/posted", .handler = answer}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  [[nodiscard]] int port() const { return server_->port(); }
  // The answer to a request as it is written here.
  std::string Raw(const std::string& request) const {
    testing::HttpConnection connection(port());
    connection.Send(request);
    return connection.ReceiveAll();
  }
  HttpAnswer Preflight(const std::string& path, const std::string& headers = "") const {
    return Fetch(port(), path,
                 absl::StrCat(kOtherSite, "Access-Control-Request-Method: POST\r\n", headers),
                 "OPTIONS");
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpAdmissionTest, ATargetMayBeAUrl) {
  Start();
  EXPECT_EQ(Fetch(port(), "http://localhost/own").body, "/own ");
  EXPECT_EQ(Fetch(port(), "HTTP://127.0.0.1:80/own?x=1").body, "/own ");
  // The URL has precedence over the Host header.
  EXPECT_EQ(Fetch(port(), "http://evil.example/own").status, 421);
  EXPECT_EQ(Fetch(port(), "http://localhost/own", "Host: evil.example\r\n").status, 200);
  EXPECT_EQ(Fetch(port(), "ftp://localhost/own").status, 400);
}

TEST_F(HttpAdmissionTest, AProbeOfHttp10NeedsNoHost) {
  Start();
  EXPECT_THAT(Raw("GET /own HTTP/1.0\r\n\r\n"), HasSubstr("200 OK"));
  EXPECT_THAT(Raw("GET /own HTTP/1.0\r\nHost: evil.example\r\n\r\n"), HasSubstr(" 421 "));
  EXPECT_THAT(Raw("GET /own HTTP/1.1\r\nConnection: close\r\n\r\n"), HasSubstr(" 400 "));
}

TEST_F(HttpAdmissionTest, AnotherMethodIsRefusedWithThoseThatAreAllowed) {
  Start();
  const HttpAnswer refused = Fetch(port(), "/own", "", "POST", "x");
  EXPECT_EQ(refused.status, 405);
  EXPECT_THAT(refused.head, HasSubstr("Allow: GET, HEAD\r\n"));
  EXPECT_THAT(Fetch(port(), "/open", "", "DELETE").head, HasSubstr("Allow: GET, HEAD, POST\r\n"));
  EXPECT_THAT(Fetch(port(), "/posted").head, HasSubstr("Allow: POST\r\n"));
  EXPECT_THAT(Fetch(port(), "/own", "", "OPTIONS").head, HasSubstr("Allow: GET, HEAD\r\n"));
}

TEST_F(HttpAdmissionTest, AnEncodedBodyIsRefused) {
  Start();
  for (const char* encoding : {"gzip", "br", "identity, gzip"}) {
    const HttpAnswer refused =
        Fetch(port(), "/posted", absl::StrCat("Content-Encoding: ", encoding, "\r\n"), "POST", "x");
    EXPECT_EQ(refused.status, 415) << encoding;
    EXPECT_THAT(refused.head, HasSubstr("Accept-Encoding: identity"));
    EXPECT_THAT(refused.body, HasSubstr("Content-Encoding"));
  }
  EXPECT_EQ(Fetch(port(), "/posted", "Content-Encoding: identity\r\n", "POST", "x").status, 200);
}

TEST_F(HttpAdmissionTest, PagesOfOtherSitesAreRefusedUnlessTheirOriginIsAllowed) {
  Start();
  EXPECT_EQ(Fetch(port(), "/open", kOtherSite).status, 403);
  EXPECT_EQ(Preflight("/open").status, 403);
  Start({.origins = {"https://app.example"}});
  const HttpAnswer answer = Fetch(port(), "/open", kOtherSite);
  EXPECT_EQ(answer.body, "/open ");
  EXPECT_THAT(answer.head, AllOf(HasSubstr("Access-Control-Allow-Origin: https://app.example\r\n"),
                                 HasSubstr("Vary: Origin\r\n"), HasSubstr("X-Request-Id")));
  EXPECT_EQ(Fetch(port(), "/open", "Origin: https://app.example.evil\r\n").status, 403);
  EXPECT_EQ(Fetch(port(), "/own", kOtherSite).status, 403) << "only open routes";
  EXPECT_EQ(Fetch(port(), "/none", kOtherSite).status, 403);
  EXPECT_THAT(Fetch(port(), "/open").head, Not(HasSubstr("Access-Control")));
  const std::string own = "Host: localhost\r\nOrigin: http://localhost\r\n";
  EXPECT_EQ(Fetch(port(), "/own", own).status, 200);
}

TEST_F(HttpAdmissionTest, APreflightSaysWhatAPageMaySend) {
  Start({.origins = {"*"}});
  const HttpAnswer answer =
      Preflight("/open",
                "Access-Control-Request-Headers: authorization,content-type\r\n"
                "Access-Control-Request-Private-Network: true\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head,
              AllOf(HasSubstr("Access-Control-Allow-Origin: https://app.example\r\n"),
                    HasSubstr("Access-Control-Allow-Methods: GET, HEAD, POST\r\n"),
                    HasSubstr("Access-Control-Allow-Headers: authorization,content-type\r\n"),
                    HasSubstr("Access-Control-Allow-Private-Network: true\r\n"),
                    HasSubstr("Access-Control-Max-Age: 600")));
  EXPECT_EQ(Preflight("/own").status, 403);
}

TEST_F(HttpAdmissionTest, AnAllowedPageReadsErrors) {
  Start({.origins = {"*"}});
  const HttpAnswer refused = Fetch(port(), "/open", kOtherSite, "DELETE");
  EXPECT_EQ(refused.status, 405);
  EXPECT_THAT(refused.head, HasSubstr("Access-Control-Allow-Origin: https://app.example\r\n"));
}

}  // namespace
}  // namespace bastion
