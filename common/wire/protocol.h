// The version of the internal protocol (protos/bastion/internal), which the server checks on every
// call, and helpers for gRPC statuses and channels. Thread-safe: no state.
#ifndef BASTION_COMMON_WIRE_PROTOCOL_H_
#define BASTION_COMMON_WIRE_PROTOCOL_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/security.h"

namespace bastion::wire {

inline constexpr char kProtocolKey[] = "bastion-protocol";
inline constexpr int kProtocolVersion = 5;
inline constexpr int kOldestProtocolVersion = 4;  // The oldest version that a server accepts.
// Maximum size of an internal message. Larger data is sent in chunks.
inline constexpr int kMaxMessageBytes = 16 << 20;

// Adds this service's protocol version to a call. Call it before the call starts.
void AddProtocolVersion(grpc::ClientContext& context);
// FAILED_PRECONDITION unless this server supports the caller's protocol version. The message names
// both versions.
[[nodiscard]] absl::Status CheckProtocol(const grpc::ServerContext& context);
// The same. Before it, checks that the caller has `right`; errors: Security::Authorize.
[[nodiscard]] absl::Status CheckCaller(const grpc::ServerContext& context, const Security& security,
                                       Right right);

// `deadline`, on SteadyNow(), as a deadline for gRPC.
[[nodiscard]] gpr_timespec GrpcDeadline(absl::Time deadline);

[[nodiscard]] grpc::Status ToGrpc(const absl::Status& status);
// With the message as PeerText: it may come from the peer.
[[nodiscard]] absl::Status FromGrpc(const grpc::Status& status);

// A channel to another bastion service, with keepalive and the message size limit. It connects when
// it is first used.
[[nodiscard]] std::shared_ptr<grpc::Channel> ConnectPeer(
    const std::string& address, const Security& security = *Security::None());

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_PROTOCOL_H_
