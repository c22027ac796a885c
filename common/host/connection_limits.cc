#include "common/host/connection_limits.h"

#include <algorithm>
#include <limits>

namespace bastion::wire {
namespace {

int Milliseconds(absl::Duration time) {
  constexpr int64_t kInfinite = std::numeric_limits<int>::max();  // For gRPC.
  return static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(time), 1, kInfinite));
}

}  // namespace

void SetKeepaliveWithin(absl::Duration patience, ConnectionLimits& limits) {
  const auto lower = [](absl::Duration to, absl::Duration& time) {
    time = std::min(time, std::max(to, absl::Seconds(1)));
  };
  lower(patience * 2 / 3, limits.keepalive);
  lower(patience / 3, limits.keepalive_timeout);
}

void SetConnectionLimits(const ConnectionLimits& limits, grpc::ResourceQuota& quota,
                         grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(limits.keepalive));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(limits.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(limits.handshake));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(limits.max_idle));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, Milliseconds(limits.max_age));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS,
                             Milliseconds(limits.max_age_grace));
  if (limits.max_streams > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.max_streams);
  }
  if (limits.max_buffer_bytes > 0) quota.Resize(limits.max_buffer_bytes);
}

}  // namespace bastion::wire
