#include "common/telemetry/transport_metrics.h"

#include <utility>

namespace bastion {

TransportMetrics::TransportMetrics(const MetricMaker* make, const std::string& peer,
                                   const wire::TransportStats* stats) {
  if (make == nullptr) return;
  MutexLock lock(&mutex_);
  const auto add_bytes = [&](const char* carrier, const char* direction,
                             const std::atomic<int64_t>& count) {
    mutex_.AssertHeld();
    prometheus::Counter& metric =
        make->Counter("bastion_transport_bytes_total",
                      "Bytes of messages and tensors between this service and a peer.",
                      {{"peer", peer}, {"carrier", carrier}, {"direction", direction}});
    sources_.push_back({&count, &metric});
  };
  const auto add_fallbacks = [&](const char* reason, const std::atomic<int64_t>& count) {
    mutex_.AssertHeld();
    prometheus::Counter& metric =
        make->Counter("bastion_transport_fallbacks_total",
                      "Streams and tensors that could not use shared memory.",
                      {{"peer", peer}, {"reason", reason}});
    sources_.push_back({&count, &metric});
  };
  add_bytes("grpc", "sent", stats->grpc.sent);
  add_bytes("grpc", "received", stats->grpc.received);
  add_bytes("shared_memory", "sent", stats->shared_memory.sent);
  add_bytes("shared_memory", "received", stats->shared_memory.received);
  add_fallbacks("not_offered", stats->not_offered);
  add_fallbacks("handshake_failed", stats->handshake_failed);
  add_fallbacks("no_room", stats->no_room);
}

void TransportMetrics::Refresh() {
  MutexLock lock(&mutex_);
  for (Source& source : sources_) {
    const int64_t now = *source.count;
    source.metric->Increment(static_cast<double>(now - std::exchange(source.seen, now)));
  }
}

}  // namespace bastion
