// Version of protos/bastion/internal, checked by both sides of every internal call.
#ifndef BASTION_COMMON_WIRE_PROTOCOL_H_
#define BASTION_COMMON_WIRE_PROTOCOL_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"

namespace bastion::wire {

inline constexpr char kProtocolKey[] = "bastion-protocol";
inline constexpr int kProtocolVersion = 2;
// Internal messages are chunked to stay below this.
inline constexpr int kMaxMessageBytes = 16 << 20;

// States our version on a call that is about to start.
void StateProtocol(grpc::ClientContext& context);
// FAILED_PRECONDITION with both versions unless the caller speaks ours.
[[nodiscard]] absl::Status CheckProtocol(const grpc::ServerContext& context);

[[nodiscard]] grpc::Status ToGrpc(const absl::Status& status);
[[nodiscard]] absl::Status FromGrpc(const grpc::Status& status);

// A channel to a peer of ours: keepalive on, message limit set, messages never compressed.
[[nodiscard]] std::shared_ptr<grpc::Channel> ConnectPeer(const std::string& address);

}  // namespace bastion::wire

#endif  // BASTION_COMMON_WIRE_PROTOCOL_H_
