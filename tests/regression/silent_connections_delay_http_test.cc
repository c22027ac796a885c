// Connections that sent nothing, or half a header, kept all others waiting until their time was
// over: each probe took 10 s, as long as an attacker opened new ones.
#include <list>
#include <string>

#include "common/http/http_server.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

void ExpectAnswerBeside(const std::string& sent) {
  HttpOptions options;
  options.listen = "127.0.0.1:0";
  options.max_connections = 4;
  const auto server =
      HttpServer::Start(options, {{"GET", "/", [](const HttpRequest&, HttpResponse& response) {
                                     response.Send(200, "text/plain", "served");
                                   }}});
  ASSERT_TRUE(server.ok()) << server.status();
  std::list<testing::HttpConnection> silent;
  // The tests' client waits at most 20 s: two rounds of the 10 s that each had.
  for (int i = 0; i < 100; ++i) silent.emplace_back((*server)->port()).Send(sent);
  EXPECT_EQ(testing::Fetch((*server)->port(), "/").body, "served");
}

TEST(SilentConnectionsDelayHttpTest, OthersAreServedBesideSilentConnections) {
  ExpectAnswerBeside("");
}

TEST(SilentConnectionsDelayHttpTest, OthersAreServedBesideUnfinishedHeaders) {
  ExpectAnswerBeside("GET / HTTP/1.1\r\nHost: local");
}

}  // namespace
}  // namespace bastion
