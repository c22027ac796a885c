// While as many requests were answered as the server has places for, probes got no answer, and
// monitoring took the service for dead.
#include <atomic>
#include <list>

#include "absl/time/clock.h"
#include "common/http/http_server.h"
#include "common/telemetry/metric_page.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

TEST(BusyRequestsHideHealthTest, MetricsAreServedWhileAllPlacesAreTaken) {
  std::atomic<int> waiting{0};
  const auto waits = [&](const HttpRequest&, HttpResponse& response) {
    ++waiting;
    response.Begin(200, "text/plain");
    while (response.connected()) absl::SleepFor(absl::Milliseconds(1));
  };
  MetricPage page("orchestrator");
  page.SetRefresh([] {});
  HttpOptions options;
  options.listen = "127.0.0.1:0";
  options.max_connections = 2;
  const auto server = HttpServer::Start(options, {{"GET", "/waits", waits}, page.Route()});
  ASSERT_TRUE(server.ok()) << server.status();
  std::list<testing::HttpConnection> busy;
  for (int i = 0; i < options.max_connections; ++i) {
    busy.emplace_back((*server)->port()).Send("GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  while (waiting < options.max_connections) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(testing::Fetch((*server)->port(), "/metrics").status, 200);
}

}  // namespace
}  // namespace bastion
