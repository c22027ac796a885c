// Converts the statuses of gRPC. Internal to the library. Thread-safe: no state.
#ifndef BASTION_CLIENT_CPP_BASTION_GRPC_STATUS_H_
#define BASTION_CLIENT_CPP_BASTION_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace bastion {

inline constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
inline constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
inline constexpr char kRequestInfoUrl[] = "type.googleapis.com/google.rpc.RequestInfo";

// `status` with its details (error_details.proto) as payloads.
[[nodiscard]] absl::Status FromGrpc(const grpc::Status& status);

// An error with the id of its request, if it does not have one yet. OK stays OK.
[[nodiscard]] absl::Status EnsureRequestId(absl::Status status, const std::string& request_id);

}  // namespace bastion

#endif  // BASTION_CLIENT_CPP_BASTION_GRPC_STATUS_H_
