#include "common/telemetry/transport_metrics.h"

#include <prometheus/registry.h>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(TransportMetricsTest, AddsWhatWasCountedSinceTheLastRefresh) {
  prometheus::Registry registry;
  const MetricMaker make(&registry, {{"model_name", "m"}});
  wire::TransportStats stats;
  TransportMetrics metrics(&make, "verifier", &stats);
  const prometheus::Counter& sent =
      make.Counter("bastion_transport_bytes_total", "",
                   {{"peer", "verifier"}, {"carrier", "shared_memory"}, {"direction", "sent"}});
  const prometheus::Counter& no_room = make.Counter("bastion_transport_fallbacks_total", "",
                                                    {{"peer", "verifier"}, {"reason", "no_room"}});
  stats.shared_memory.sent += 5;
  metrics.Refresh();
  EXPECT_EQ(sent.Value(), 5);
  stats.shared_memory.sent += 7;
  ++stats.no_room;
  metrics.Refresh();
  metrics.Refresh();
  EXPECT_EQ(sent.Value(), 12);
  EXPECT_EQ(no_room.Value(), 1);
}

TEST(TransportMetricsTest, DoesNothingWithoutMetrics) {
  const wire::TransportStats stats;
  TransportMetrics metrics(nullptr, "verifier", &stats);
  metrics.Refresh();
}

}  // namespace
}  // namespace bastion
