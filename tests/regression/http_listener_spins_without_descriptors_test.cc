// While the process had no descriptor left for a new connection, the HTTP listener tried to accept
// it again and again, and used a whole core.
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>

#include "absl/time/clock.h"
#include "common/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

absl::Duration ProcessTime() {
  timespec used = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return absl::DurationFromTimespec(used);
}

TEST(HttpListenerSpinsWithoutDescriptorsTest, TheClientWaitsAndIsServedLater) {
  HttpOptions options;
  options.listen = "127.0.0.1:0";
  const auto server =
      HttpServer::Start(options, {{"GET", "/", [](const HttpRequest&, HttpResponse& response) {
                                     response.Send(200, "text/plain", "served");
                                   }}});
  ASSERT_TRUE(server.ok()) << server.status();
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);
  close(next);
  // Only the client gets a descriptor.
  const rlimit one_left = {static_cast<rlim_t>(next) + 1, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &one_left), 0);
  testing::HttpConnection client((*server)->port());
  ASSERT_TRUE(client.connected());
  const absl::Duration before = ProcessTime();
  absl::SleepFor(absl::Seconds(1));
  const absl::Duration used = ProcessTime() - before;
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_LT(used, absl::Milliseconds(200));
  client.Send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReceiveAll(), ::testing::HasSubstr("served"));
}

}  // namespace
}  // namespace bastion
