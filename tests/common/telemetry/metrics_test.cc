#include "common/telemetry/metric_maker.h"
#include "common/telemetry/metric_page.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

TEST(MetricsTest, APageShowsTheMetricsOfItsRegistry) {
  MetricPage page("test");
  const MetricMaker make(&page.registry(), {{"model_name", "m"}});
  make.Counter("requests_total", "Requests.", {{"code", "OK"}}).Increment();
  make.Counter("requests_total", "Requests.", {{"code", "OK"}}).Increment(2);
  prometheus::Gauge& running = make.Gauge("running", "Running requests.");
  page.SetRefresh([&] { running.Set(7); });
  auto server = HttpServer::Start({.listen = "127.0.0.1:0"}, {page.Route()});
  ASSERT_TRUE(server.ok()) << server.status();
  const auto answer = testing::Fetch((*server)->port(), "/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(answer.body, HasSubstr("# TYPE requests_total counter"));
  EXPECT_THAT(answer.body, HasSubstr("requests_total{model_name=\"m\",code=\"OK\"} 3"));
  EXPECT_THAT(answer.body, HasSubstr("running{model_name=\"m\"} 7"));
  EXPECT_THAT(answer.body, HasSubstr("bastion_build_info{service=\"test\",version="));
}

TEST(MetricsTest, BucketsIncrease) {
  for (const auto* buckets : {&RequestSeconds(), &CycleSeconds()}) {
    EXPECT_TRUE(std::is_sorted(buckets->begin(), buckets->end()));
    EXPECT_EQ(std::adjacent_find(buckets->begin(), buckets->end()), buckets->end());
  }
  EXPECT_LT(CycleSeconds().front(), 50e-6);
  EXPECT_GT(CycleSeconds().back(), 15);
}

}  // namespace
}  // namespace bastion
