// The server checked the first Host and Origin header of a request and ignored the others, which a
// proxy before it may have checked instead.
#include "common/http/http_server.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

TEST(SecondHostHeaderIsIgnoredTest, SuchARequestIsRefused) {
  HttpOptions options;
  options.listen = "127.0.0.1:0";
  const auto server =
      HttpServer::Start(options, {{"GET", "/", [](const HttpRequest&, HttpResponse& response) {
                                     response.Send(200, "text/plain", "served");
                                   }}});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto status = [&](const std::string& headers) {
    return testing::Fetch((*server)->port(), "/", headers).status;
  };
  EXPECT_EQ(status("Host: localhost\r\nHost: other.example\r\n"), 400);
  EXPECT_EQ(status("Host: localhost\r\nhost: localhost\r\n"), 400);
  EXPECT_EQ(status("Origin: http://localhost\r\nOrigin: http://other.example\r\n"), 400);
  EXPECT_EQ(status("Host: localhost\r\nOrigin: http://localhost\r\n"), 200);
}

}  // namespace
}  // namespace bastion
