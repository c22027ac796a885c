#include "common/wire/protocol.h"

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/peer_text.h"
#include "common/base/status.h"

namespace bastion::wire {

void AddProtocolVersion(grpc::ClientContext& context) {
  context.AddMetadata(kProtocolKey, absl::StrCat(kProtocolVersion));
}

absl::Status CheckProtocol(const grpc::ServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find(kProtocolKey);
  // A string_ref is not NUL-terminated: use its length.
  const std::string theirs =
      found == metadata.end() ? "none" : PeerName({found->second.data(), found->second.size()});
  int version = 0;
  if (absl::SimpleAtoi(theirs, &version) && version >= kOldestProtocolVersion &&
      version <= kProtocolVersion) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the peer speaks protocol version ", theirs, ", this service speaks versions ",
                   kOldestProtocolVersion, " to ", kProtocolVersion,
                   "; update the verifier and the drafter before the orchestrator"));
}

gpr_timespec GrpcDeadline(absl::Time deadline) {
  if (deadline == absl::InfiniteFuture()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const absl::Duration left = deadline - SteadyNow();
  if (left <= absl::ZeroDuration()) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(left), GPR_TIMESPAN));
}

absl::Status CheckCaller(const grpc::ServerContext& context, const Security& security,
                         Right right) {
  RETURN_IF_ERROR(security.Authorize(context, right).status());
  return CheckProtocol(context);
}

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return {static_cast<absl::StatusCode>(status.error_code()), PeerText(status.error_message())};
}

std::shared_ptr<grpc::Channel> ConnectPeer(const std::string& address, const Security& security) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  // Finds connections on which nothing arrives any longer although they are open.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3000);
  arguments.SetInt(GRPC_ARG_HTTP2_MIN_SENT_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2000);  // The timeout for connecting.
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 250);
  // Do not share connections between channels: a restarted peer needs a new connection, without the
  // back-off state of another channel.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return security.Connect(address, arguments);
}

}  // namespace bastion::wire
