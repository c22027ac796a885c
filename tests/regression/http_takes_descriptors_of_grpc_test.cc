// With few descriptors, idle HTTP connections took those that gRPC needed: its clients were
// refused.
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <list>

#include "common/http/http_server.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

int CountDescriptors() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(HttpTakesDescriptorsOfGrpcTest, HttpConnectionsTakeAtMostAQuarter) {
  constexpr int kFree = 128, kClients = 200;
  HttpOptions options;
  options.listen = "127.0.0.1:0";
  options.max_connections = 544;
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);
  close(next);
  const rlimit low = {static_cast<rlim_t>(next) + kFree, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto server =
      HttpServer::Start(options, {{"GET", "/", [](const HttpRequest&, HttpResponse& response) {
                                     response.Send(200, "text/plain", "served");
                                   }}});
  setrlimit(RLIMIT_NOFILE, &limit);  // The clients are in this process too.
  ASSERT_TRUE(server.ok()) << server.status();
  const int before = CountDescriptors();
  std::list<testing::HttpConnection> clients;
  for (int i = 0; i < kClients; ++i)
    ASSERT_TRUE(clients.emplace_back((*server)->port()).connected());
  // The server has accepted all that it will when it has answered the last client.
  EXPECT_EQ(testing::Fetch((*server)->port(), "/").body, "served");
  EXPECT_LE(CountDescriptors() - before - kClients, kFree / 4);
}

}  // namespace
}  // namespace bastion
