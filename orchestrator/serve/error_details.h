// Details of an error for clients, in the form of google.rpc: a delay after which a retry makes
// sense. Inside the process the detail is a payload of the absl::Status. On the wire it is the
// trailer grpc-status-details-bin. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_SERVE_ERROR_DETAILS_H_
#define BASTION_ORCHESTRATOR_SERVE_ERROR_DETAILS_H_

#include <grpcpp/support/status.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace bastion {

// Returns `status` with a google.rpc.RetryInfo that asks clients to wait for `delay`. REQUIRES:
// `status` is an error.
[[nodiscard]] absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);
// The delay that WithRetryDelay added; nullopt if there is none.
[[nodiscard]] std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// The gRPC status of `status`, with its payloads as details.
[[nodiscard]] grpc::Status ToGrpcWithDetails(const absl::Status& status);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_ERROR_DETAILS_H_
